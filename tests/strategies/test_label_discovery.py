"""Labels that nobody listed: shown by whoever is trusted with them, if many records share them."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import sealed_federation
from adversary.lying_server import watching
from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp
from sealed_federation import KEY
from session_nights import TOMORROW, a_night
from split_federation import PAIR
from trust.vector_forms import claim, counts

from flwr_kld import Binned, Reference, Table
from flwr_kld.ask.plan import plan_for_labels
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.common.errors import CheckFailed, DomainError, QueryRefused
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Budget, BudgetExhausted, Ledger
from flwr_kld.ledger.entry import AlreadyChecked
from flwr_kld.report.discovery_report import DiscoveryReport
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    LabelDiscovery,
    SecureSum,
    Standing,
    Statistics,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)
from flwr_kld.trust.sealing import OVERHEAD
from flwr_kld.trust.terms import Terms

TABLE = Table({"job": ["nurse", "smith"], "age": Binned([30, 60])}, sources={"job": "work"})
REFERENCE = Reference.from_counts(TABLE, np.ones(TABLE.size))


TWO = Trusted(2.0, 1e-6)
SEALED = TrustedAggregator(2.0, 1e-6, aggregator=KEY.public)


def jobs(context):
    """Twenty records of a node, of which half have a listed label."""
    work = ["nurse"] * 10 + ["baker"] * 6 + [f"{context.node_id}-{i}" for i in range(2)]
    return {"work": [*work, "" if context.node_id % 5 else "Küchenhilfe", None], "age": [40] * 20}


def app_of(records=jobs, table=TABLE, **options) -> ClientApp:
    app = ClientApp()
    answer_drift_queries(
        app, records, table, **{"discover": {"job", "age", "name", "work"}, **options}
    )
    return app


def grid_of(records=jobs, nodes=20, **options) -> InProcessGrid:
    return InProcessGrid(app_of(records, **options), nodes)


def names(report: DiscoveryReport) -> list[str]:
    return [label.name for label in report.reading.labels]


def secretly(context):
    """120 bakers in all, one cook, and labels that one record has each."""
    one = ["Köchin"] if context.node_id == 1000 else ["nurse"]
    work = ["baker"] * 6 + [f"{context.node_id}-{i}" for i in range(5)] + one + ["smith", None]
    return {"work": work, "age": [40] * 14}


def test_a_trusted_server_shows_what_many_records_share_and_no_label_of_one(caplog):
    """What is printed is exact: ten of a million questions show any of 101 labels of one record."""
    report = LabelDiscovery(TABLE, "job", TWO).ask(grid_of(secretly))
    (baker,) = report.reading.labels
    assert baker.name == "baker"
    assert abs(baker.records - 120) <= 15
    assert baker.low <= baker.records <= baker.high < baker.low + 10
    assert report.reading.shown_from == 15
    assert report.reading.found_from == 17
    assert report.protection.mechanism == "truncated-laplace"
    assert "labels" in report.protection.visibility.exact
    assert report.cost.epsilon == 2.0
    assert report.cohort.survivors == 20
    assert DiscoveryReport.from_json(report.to_json()) == report
    for said in (str(report), report.to_json(), caplog.text):
        assert not [name for name in ("chin", "1000-", "1019-", "nurse") if name in said]


def test_where_many_share_nothing_nothing_is_shown():
    grid = grid_of(lambda context: {"work": [f"{context.node_id}", "nurse"], "age": [1, 2]})
    report = LabelDiscovery(TABLE, "job", TWO).ask(grid)
    assert names(report) == []
    assert report.summary.startswith("No unlisted label of job")


def sealed_grid(records=secretly, **options):
    return sealed_federation.federation(app_of(records, aggregator=KEY.public), **options)


def test_the_server_of_an_aggregator_sees_no_label_but_those_that_are_shown():
    """Nor how many a client has: boxes are as long as if each record had one of its own."""
    grid = sealed_grid()
    report = LabelDiscovery(TABLE, "job", SEALED).ask(grid)
    assert names(report) == ["baker"]
    assert (report.reading.shown_from, report.reading.found_from) == (15, 17)
    assert (report.protection.trust, report.cost.epsilon) == ("trusted-aggregator", 2.0)
    assert "aggregator saw" in report.protection.visibility.exact
    assert {len(box) for box in grid.boxes()} == {14 * 44 + OVERHEAD}
    handled = repr(list(grid.handled()))
    assert "baker" in handled
    assert not [name for name in ("chin", "1000-", "1019-") if name in handled]


def test_a_box_of_labels_that_no_honest_client_seals_is_left_out_by_itself():
    def spoil(content):
        boxes = content["numbers"]
        boxes["1003:0"], boxes["1004:0"] = bytes(64), boxes["1005:0"]

    grid = sealed_grid(meddle=sealed_federation.on_request(spoil))
    report = LabelDiscovery(TABLE, "job", SEALED).ask(grid)
    assert names(report) == ["baker"]
    assert (report.cohort.survivors, sum(report.cohort.dropouts.values())) == (17, 3)


PUBLISHED = {
    "a label without a count": {"labels": '["baker","cook"]'},
    "a label twice": {"labels": '["baker","baker"]', "values": bytes(16)},
    "a count without a label": {"labels": "[]"},
    "half a count": {"values": bytes(7)},
    "labels that are numbers": {"labels": "[7]"},
    "a label without text": {"labels": '[""]'},
    "a long label": {"labels": json.dumps(["x" * 41])},
    "a count within the noise": {"values": (14).to_bytes(8, "little")},
    "less than no record": {"values": (-(2**63)).to_bytes(8, "little", signed=True)},
    "more records than there can be": {"values": (2**63 - 1).to_bytes(8, "little")},
}


@pytest.mark.parametrize("lie", PUBLISHED.values(), ids=PUBLISHED)
def test_an_answer_of_the_aggregator_that_does_not_fit_is_refused(lie):
    grid = sealed_grid()
    pull = grid.pull_messages

    def meddled(ids):
        found = list(pull(ids))
        for message in found:
            if message.has_content() and "published" in message.content:
                message.content["published"].update(lie)
        return found

    grid.pull_messages = meddled
    with pytest.raises(CheckFailed, match="aggregator"):
        LabelDiscovery(TABLE, "job", SEALED).ask(grid)


OTHERS = {
    "no delta": replace(TWO, delta=0.0),
    "whole clients": replace(TWO, protects=WholeClients(20)),
    "a year of nights": Standing(TWO),
    "shares": Distributed(2.0, min_clients=15, delta=1e-6),
    "two aggregators": TwoAggregators(2.0, 1e-6, aggregators=PAIR),
}


@pytest.mark.parametrize("trust", OTHERS.values(), ids=OTHERS)
def test_another_trust_model_is_refused_at_once(trust):
    with pytest.raises(ValueError, match="TrustedAggregator"):
        LabelDiscovery(TABLE, "job", trust)


def test_names_of_any_script_and_length_are_found():
    """Of forty bytes; of a longer one as many characters as forty bytes hold."""
    told = ["Пенсионер", "看護師", "Gesundheits- und Krankenpflegerin", "x" * 50, "7", "Ü" * 30]
    grid = grid_of(
        lambda _: {"work": [*told * 50, "nurse"], "age": [1] * 301},
        nodes=10,
    )
    report = LabelDiscovery(TABLE, "job", TWO).ask(grid)
    assert set(names(report)) == {*told[:3], "x" * 40, "7", "Ü" * 20}
    assert f"{'x' * 40}…" in str(report)  # listed as it is told, it would not be theirs
    assert f"{'Ü' * 20}…" in str(report)
    assert "Krankenpflegerin  " in str(report)
    assert "may be longer" in str(report)


@pytest.mark.parametrize("column", ["line\nbreak", "x" * 301, "a\u202eb"])
def test_a_column_of_any_name_can_be_asked_for(column):
    table = Table({column: ["nurse"], "age": Binned([30, 60])})
    grid = grid_of(
        lambda _: {column: ["baker"] * 9, "age": [1] * 9}, 3, table=table, discover={column}
    )
    report = LabelDiscovery(table, column, TWO).ask(grid)
    assert names(report) == ["baker"]
    assert "\u202e" not in str(report)


@pytest.mark.parametrize("allowed", [set(), {"age"}])
def test_a_client_whose_app_names_no_such_column_counts_nothing(allowed):
    loaded = []

    def records(context):
        loaded.append(context)
        return jobs(context)

    with pytest.raises(CheckFailed, match="nobody"):
        LabelDiscovery(TABLE, "job", TWO).ask(grid_of(records, discover=allowed))
    assert not loaded
    with pytest.raises(ValueError, match="columns"):
        app_of(discover="job")


def test_three_clients_are_enough():
    report = LabelDiscovery(TABLE, "job", TWO).ask(
        grid_of(lambda _: {"work": ["baker"] * 60, "age": [1] * 60}, nodes=3)
    )
    assert names(report) == ["baker"]


def test_one_client_may_decide_and_the_report_says_so():
    def records(context):
        many = 5000 if context.node_id == 1000 else 0
        return {"work": ["baker"] * many + ["nurse"] * 10, "age": [1] * (many + 10)}

    report = LabelDiscovery(TABLE, "job", Trusted(2.0, 1e-6)).ask(grid_of(records))
    assert names(report) == ["baker"]
    assert "one client" in " ".join(str(report).split())


# --------------------------------------------------------------------------- a lying server


def terms_of(**changes) -> Terms:
    plan = plan_for_labels(REFERENCE, UnlistedLabels("job"))
    return replace(TWO.terms(plan, check="c1", asked=20, until=TOMORROW), **changes)


def claimed(**changes) -> str:
    return claim(**{"epsilon": 2.0, "delta": 1e-6, **changes})


def told(lie):
    """Let an honest server's clients hear a lie; return why they refuse, and what they counted."""
    honest = app_of(secure_sum=FirstUse())

    def client(message, context):
        message = copy.deepcopy(message)
        lie(message.content["terms"])
        return honest(message, context)

    with watching() as seen, pytest.raises(CheckFailed) as refused:
        LabelDiscovery(TABLE, "job", TWO).ask(InProcessGrid(client, 5))
    return str(refused.value), seen


NOISE = {
    "distributed": '{"n_min":3}',
    "trusted-aggregator": f'{{"keys":["{"a" * 64}"]}}',
    "two-aggregators": f'{{"keys":["{"a" * 64}","{"b" * 64}"]}}',
}
LIES = {
    "another column": (lambda a: a.update(asked_for='{"column":"age"}'), "lists no labels"),
    "a column of no table": (
        lambda a: a.update(asked_for='{"column":"name"}'),
        "lists no labels",
    ),
    "its source": (lambda a: a.update(asked_for='{"column":"work"}'), "lists no labels"),
    "no column": (lambda a: a.update(asked_for=counts()), "number of columns"),
    "one more field": (
        lambda a: a.update(asked_for='{"bytes":80,"column":"job"}'),
        "asked_for",
    ),
    "not even JSON": (lambda a: a.update(asked_for="job"), "asked_for"),
    "two cells": (lambda a: a.update(cells=[2]), "more cells than the domain has symbols"),
    "no delta": (lambda a: a.update(guarantee=claimed(delta=0.0)), "delta > 0"),
    "whole clients": (
        lambda a: a.update(guarantee=claimed(protects={"most_records": 5}), most_records=5),
        "of records",
    ),
    "privatised by each client": (lambda a: a.update(noise="{}"), "noise"),
    **{
        f"the model {name}": (lambda a, w=noise: a.update(noise=w), "noise")
        for name, noise in NOISE.items()
        if name != "trusted-aggregator"
    },
    "another table": (lambda a: a.update(domain="f" * 64), "domain is not this client's"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_question_that_does_not_fit_is_refused_before_anything_is_counted(lie):
    change, expected = LIES[lie]
    why, seen = told(change)
    assert expected in why
    assert not seen.admitted
    assert not seen.counted


def test_labels_are_in_no_secure_sum():
    """A server that asks for them in one is told nothing."""
    app, asked = app_of(secure_sum=FirstUse()), terms_of().to_config()

    def client(message, context):
        if "terms" in message.content:
            message = copy.deepcopy(message)
            message.content["terms"] = ConfigRecord(asked)
        return app(message, context)

    statistics = Statistics(TABLE, TWO, aggregation=SecureSum())
    with watching() as seen, pytest.raises(CheckFailed, match="labels"):
        statistics.ask(InProcessGrid(client, 5))
    assert not seen.counted


BAD = {
    "no list of labels": b"\0" * 45,
    "counts of a table": np.arange(11, dtype="<i4").tobytes(),
    "a label twice": 2 * (b"\1\0\0\0" + b"baker".ljust(40, b"\0")),
    "a negative number": b"\xff" * 4 + b"baker".ljust(40, b"\0"),
    "no UTF-8": b"\1\0\0\0" + b"\xff".ljust(40, b"\0"),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_a_client_that_tells_what_no_honest_one_does_is_left_out_by_itself(answer):
    honest = app_of(secretly)

    def client(message, context):
        reply = honest(message, context)
        if context.node_id == 1000:
            reply.content["numbers"] = ConfigRecord({"numbers": [answer]})
        return reply

    report = LabelDiscovery(TABLE, "job", TWO).ask(InProcessGrid(client, 20))
    assert names(report) == ["baker"]
    assert report.cohort.survivors == 19
    ((why, clients),) = report.cohort.dropouts.items()
    assert clients == 1
    assert "invalid reply" in why
    assert "baker" not in why


ODD = [10**5000, "x" * 10**6, "\ud800", "a\0b", "\n", b"\xff", "\0", math.inf, object(), [], {}]


@pytest.mark.parametrize("odd", ODD, ids=lambda v: type(v).__name__)
def test_a_record_that_does_not_fit_changes_nothing_but_its_own_label(odd):
    """Neighbouring federations: what a report says besides noised counts is the same."""
    told = []
    for record in ("nurse", odd):

        def records(context, record=record):
            work = ["baker"] * 6 + [record if context.node_id == 1000 else "smith"]
            return {"work": work, "age": [1] * 7}

        report = LabelDiscovery(TABLE, "job", TWO).ask(grid_of(records))
        told.append((names(report), report.cohort, report.reading.found_from))
    assert told[0] == told[1]


def test_labels_are_asked_for_on_no_night():
    with pytest.raises(ValueError, match="night"):
        terms_of(night=a_night("s1", 1, 7, 2))


# --------------------------------------------------------------------- what the operator allows


@pytest.mark.parametrize("column", ["job", ""])
def test_a_guard_allows_columns_by_name_and_none_by_default(column, limits, receipts):
    limits(("max_epsilon = 1.0", "max_epsilon = 2.0"))
    table = Table({column: ["nurse"], "age": Binned([30, 60])})
    grid = grid_of(lambda _: {column: ["baker"], "age": [1]}, table=table, discover={column})
    with pytest.raises(CheckFailed, match=f"'{column}'"):
        LabelDiscovery(table, column, TWO).ask(grid)
    assert receipts() == ()


@pytest.mark.parametrize("allowed", ['"any"', '["age", "job"]'])
def test_an_allowed_question_is_in_the_receipts_at_its_price(allowed, limits, receipts):
    allow = 'plans = "any"', f'plans = "any"\ndiscovery = {allowed}'
    limits(("max_epsilon = 1.0", "max_epsilon = 2.0"), allow)
    LabelDiscovery(TABLE, "job", Trusted(2.0, 2e-7)).ask(grid_of())
    assert {r.epsilon for r in receipts()} == {2}
    assert len(receipts()) == 20
    with pytest.raises(CheckFailed, match="left"):
        LabelDiscovery(TABLE, "job", Trusted(2.0, 2e-7)).ask(grid_of())


def test_the_ledger_is_charged_before_anybody_is_asked(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(3.0, 1e-5, composition="sum"))
    asking = LabelDiscovery(TABLE, "job", TWO, ledger=ledger)
    report = asking.ask(grid_of(), key="jobs")
    assert report.cost.left == pytest.approx(1.0)
    with pytest.raises(AlreadyChecked):
        asking.ask(grid_of(), key="jobs")
    with watching() as seen, pytest.raises(BudgetExhausted):
        asking.ask(grid_of(), key="jobs again")
    assert not seen.admitted
    entry = next(entry for entry in ledger.newest_first("default") if entry.key == "jobs")
    assert DiscoveryReport.from_dict(entry.report) == report


# -------------------------------------------------------------------------- what is not a question


def test_what_is_no_column_of_labels_is_refused_at_once():
    with pytest.raises(DomainError, match="'job'"):
        LabelDiscovery(TABLE, "age", TWO)
    with pytest.raises(DomainError, match="Table"):
        UnlistedLabels("job").over(TABLE.columns["job"])
    with pytest.raises(QueryRefused, match="labels"):
        terms_of().over(Table({"age": Binned([30])}))


def test_a_name_cannot_move_a_terminal():
    """A client can call a label what it likes."""
    grid = grid_of(lambda _: {"work": ["a\u202eb"] * 100, "age": [1] * 100})
    report = LabelDiscovery(TABLE, "job", TWO).ask(grid)
    assert "\u202e" not in str(report)
    assert r"a\u202eb" in str(report)
