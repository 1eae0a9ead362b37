"""Checks through two aggregators, in process: near the truth, private, and refused where wrong."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
from federation import REFERENCE, SHARES
from flwr.app import ConfigRecord, Message
from sealed_federation import on_request
from split_federation import (
    FIRST,
    KEYS,
    NODES,
    PAIR,
    ROSTER,
    SECOND,
    Members,
    aggregators,
    federation,
    monitor,
    people,
)
from tables import REFERENCE as OF_TABLE
from tables import table_app

from flwr_kld.ask.period import Period
from flwr_kld.clients import AggregatorKey, AggregatorLimits
from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.secure_sums import Roster, split_sum
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.split_sum import NOT_PROVED
from flwr_kld.strategies import KLDrift, TwoAggregators, WholeClients
from flwr_kld.trust.envelopes import Answer
from flwr_kld.trust.terms import AggregatorNoise, Terms
from strategies.test_server_blindness import ROW, SUMS, appears

MODELS = [
    {},
    {"protects": WholeClients(200)},
    {"delta": 0.3},
]


@pytest.mark.parametrize("model", MODELS)
def test_both_halves_of_a_deciding_check_are_near_the_truth(model):
    clients = people(record_ids=lambda context: range(100))
    report = monitor(trust=model, threshold=0.05).check(federation(clients))
    truth = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
    if "protects" not in model:  # whole clients of a hundred records: too much noise to say more
        assert abs(report.reading.estimate - truth) < 6 * report.reading.deviation
    assert report.verdict.lower_bound is not None, report.verdict.reason
    assert report.cohort.dropouts == {}


def test_a_table_is_read_in_every_column():
    app = table_app(secure_sum=Members(), aggregators=PAIR, record_ids=lambda context: range(100))
    trust = TwoAggregators(6.0, aggregators=PAIR)
    report = KLDrift(OF_TABLE, trust, threshold=0.05).check(federation(app))
    assert report.cohort.survivors == NODES
    assert all(column.verdict.lower_bound is not None for column in report.columns.values())


def test_the_report_says_who_saw_what_and_what_it_cost():
    grid, strategy = federation(), monitor(cells=16)
    report = strategy.check(grid)
    protection = report.protection
    assert (protection.trust, protection.aggregation) == ("two-aggregators", "split-sum")
    assert protection.private
    assert protection.visibility.exact.startswith("Nobody saw exact counts")
    assert report.cost.epsilon == report.guarantee.epsilon == 3.0
    assert report.reading.records == 100 * NODES  # the number of records is public, and exact
    terms = Terms.from_config(grid.requests()[0].content["terms"])
    one, steps = terms.central(), terms.allotment.counts[0]
    in_counts = 2 * one.table.variance / steps**2 + (1 - 1 / steps**2) / 12  # and rounded
    assert protection.noise == pytest.approx(np.sqrt(in_counts), rel=1e-3)


def test_no_exact_counts_pass_the_server_in_any_usual_form():
    """Noise of scale 20 hits zero in all six cells of a sum with P < 1e-9."""
    monitor(0.1).check(grid := federation())
    # Roles, parcels, the first one's verifier shares, parts
    assert len(grid.received) == NODES + 2 + NODES + 1 + 2
    assert not appears(ROW, grid.handled())
    assert not appears(SUMS, grid.handled())


@pytest.mark.parametrize("node", [FIRST, SECOND])
def test_without_one_aggregator_there_is_no_number(node):
    def lost(message):
        asked = message.metadata
        return (asked.message_type, asked.dst_node_id) == ("query.drift_aggregate", node)

    with pytest.raises(CheckFailed, match="answer"):
        monitor(timeout=1.0).check(federation(lose=lost))


def handed(node: int, change, *, again: bool) -> Callable:
    """Change what an aggregator is handed, or what the first of them is handed again."""

    def changed(content) -> None:
        if ("verifiers" in content) == again:
            change(content)

    return on_request(changed, node)


def test_a_server_that_shows_the_two_different_clients_reads_nothing():
    change = handed(FIRST, lambda content: content["numbers"].pop("1003:0"), again=True)
    with pytest.raises(CheckFailed, match="same"):
        monitor().check(federation(meddle=change))


@pytest.mark.parametrize(("node", "again"), [(FIRST, False), (SECOND, True)])
def test_a_client_that_only_one_of_them_is_shown_is_in_no_sum(node, again):
    change = handed(node, lambda content: content["numbers"].pop("1003:0"), again=again)
    report = monitor().check(federation(meddle=change))
    assert report.cohort.survivors == NODES - 1
    assert report.cohort.dropouts == {f"rejected by the aggregators: {NOT_PROVED}": 1}


def test_a_box_that_one_aggregator_cannot_open_is_left_out_by_its_reason():
    def change(content):
        content["numbers"]["1003:0"] = content["numbers"]["1003:0"][:-1]

    report = monitor().check(federation(meddle=handed(SECOND, change, again=True)))
    [why] = report.cohort.dropouts
    assert "BadSignature" in why


@pytest.mark.parametrize("node", [FIRST, SECOND])
def test_verifiers_that_the_server_changed_are_no_number(node):
    def change(content):
        content["verifiers"]["0"] = content["verifiers"]["0"][:-1] + b"x"

    with pytest.raises(CheckFailed, match="NotOpened"):
        monitor().check(federation(meddle=handed(node, change, again=True)))


@pytest.fixture
def few_at_once(monkeypatch):
    """Boxes of some five clients are too large for one message."""
    monkeypatch.setattr(split_sum, "PORTION", 8_000)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("trust", [{}, {"protects": WholeClients(200)}])
def test_portions_add_up_to_one_sum(trust):
    liars = (1000, 1004, 1017)
    report = monitor(trust=trust, threshold=0.05).check(grid := federation(lying(flipped, liars)))
    assert len(grid.requests()) >= 7
    sizes = [len(b"".join(m.content["numbers"].values())) for m in grid.requests()]
    assert max(sizes) <= 8_000
    assert report.cohort.dropouts == {f"rejected by the aggregators: {NOT_PROVED}": len(liars)}
    assert report.cohort.survivors == NODES - len(liars)
    if not trust:
        assert report.reading.records == 100 * (NODES - len(liars))
        assert report.one_client.share == pytest.approx(1 / (NODES - len(liars)))
        truth = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
        assert abs(report.reading.estimate - truth) < 6 * report.reading.deviation


@pytest.mark.usefixtures("few_at_once")
def test_every_portion_is_answered_once():
    monitor().check(grid := federation())
    for request in grid.requests():
        again = grid.again(request)
        if request.metadata.dst_node_id == FIRST and "verifiers" not in request.content:
            assert again["published"].keys() == {"version", "check", "box"}
        else:
            assert "AnsweredAlready" in said(again)


def portion(number: int, change) -> Callable:
    """Change one of the portions that the second aggregator is handed."""
    seen = []

    def changed(content) -> None:
        seen.append(content)
        if len(seen) == number:
            change(content, seen)

    return on_request(changed, SECOND)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("senders", ["", "again "])
def test_no_client_counts_in_two_portions(senders):
    """The first portion in place of the second, under the same names or under others."""
    taken = []

    def change(content, seen):
        taken.extend(content["numbers"])
        for name in ("numbers", "verifiers"):
            content[name] = copy.deepcopy(seen[0][name])
        boxes = content["numbers"].items()
        content["numbers"] = ConfigRecord({senders + name: box for name, box in boxes})

    grid = federation(meddle=portion(2, change))
    if not senders:
        with pytest.raises(CheckFailed, match="Duplicated"):
            monitor().check(grid)
        return
    report = monitor().check(grid)
    assert report.cohort.survivors == NODES - len(taken)
    assert report.reading.records == 100 * (NODES - len(taken))


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("place", ["0", "1"])
def test_what_is_said_of_every_portion_is_needed(place):
    meddle = handed(FIRST, lambda content: content["verifiers"].pop(place), again=True)
    with pytest.raises(CheckFailed, match="same clients"):
        monitor().check(federation(meddle=meddle))


@pytest.mark.usefixtures("few_at_once")
def test_an_aggregator_that_forgot_a_portion_answers_for_no_other_list():
    apps = aggregators()

    def forgetful(message, context):
        context.state.pop("flwr_kld.portions", None)
        return apps[1](message, context)

    with pytest.raises(CheckFailed, match="AnsweredAlready"):
        monitor().check(federation(apps=[apps[0], forgetful]))


def test_a_client_that_both_refuse_is_left_out_by_reason():
    fewer = Roster({n: k for n, k in zip(ROSTER.names, ROSTER.keys, strict=True) if n != "1003:0"})
    report = monitor().check(federation(apps=aggregators(roster=fewer)))
    why = "rejected by the aggregators: NotInvited: not in the aggregator's roster"
    assert report.cohort.dropouts == {why: 1}
    assert report.cohort.survivors == NODES - 1


def lying(change, nodes=(1000,)) -> Callable:
    """Clients of which some encode what `change` makes of their bits, and prove that."""
    honest, encode = people(), Counts.encode

    def answer(message, context):
        lies = context.node_id in nodes and message.metadata.message_type == "query.drift"
        with pytest.MonkeyPatch.context() as patch:
            if lies:
                patch.setattr(Counts, "encode", lambda own, counts: change(encode(own, counts)))
            return honest(message, context)

    return answer


def flipped(bits):
    """Some records more than there are."""
    return bits ^ np.arange(len(bits), dtype=np.uint64) % np.uint64(2)


def huge(bits):
    return np.append(bits[:-1], np.uint64(10**9))


@pytest.mark.parametrize("trust", [{}, {"protects": WholeClients(200)}])
@pytest.mark.parametrize("lie", [flipped, huge])
def test_clients_whose_proof_fails_are_left_out_and_counted(lie, trust):
    liars = (1000, 1004, 1017)
    report = monitor(trust=trust, threshold=0.05).check(federation(lying(lie, liars)))
    assert report.cohort.dropouts == {f"rejected by the aggregators: {NOT_PROVED}": len(liars)}
    assert report.cohort.survivors == NODES - len(liars)
    if not trust:
        assert report.reading.records == 100 * (NODES - len(liars))
        truth = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
        assert abs(report.reading.estimate - truth) < 6 * report.reading.deviation


@pytest.mark.parametrize("liars", [[0], [1], [0, 1]])
def test_aggregators_that_count_other_clients_than_answered_are_not_believed(liars):
    apps = aggregators()

    def lying(app):
        def answer(message, context):
            reply = app(message, context)
            if "clients" in reply.content.get("published", {}):
                reply.content["published"]["clients"] += 1
            return reply

        return answer

    told = [lying(app) if place in liars else app for place, app in enumerate(apps)]
    with pytest.raises(CheckFailed, match="numbers"):
        monitor().check(federation(apps=told))


def said(content) -> str:
    return " ".join(Answer.from_config(content["answer"]).reasons)


def test_a_check_is_answered_once_whatever_is_handed_in_again():
    """What the first says of proofs, it says as often as it is asked: it is the same."""
    monitor().check(grid := federation())
    shares, *requests = grid.requests()
    assert grid.again(shares)["published"].keys() == {"version", "check", "box"}
    assert len(requests) == 2
    for request in requests:
        assert "AnsweredAlready" in said(grid.again(request))
        fewer = copy.deepcopy(request)
        del fewer.content["numbers"]["1003:0"]
        assert "AnsweredAlready" in said(grid.again(fewer))


def test_each_aggregator_holds_its_own_minimum():
    few = federation(apps=aggregators(limits=AggregatorLimits(min_clients=NODES + 1)))
    with pytest.raises(CheckFailed, match="CohortTooSmall: 20"):
        monitor().check(few)
    for node, again in ((FIRST, False), (FIRST, True), (SECOND, True)):
        meddle = handed(
            node,
            lambda c: c.update({"numbers": ConfigRecord({"a": c["numbers"]["1003:0"]})}),
            again=again,
        )
        with pytest.raises(CheckFailed, match="CohortTooSmall: 1 "):
            monitor().check(federation(meddle=meddle))


def asked(change) -> str:
    """What a client says to a changed question."""
    monitor().check(grid := federation())
    (opening,) = [m for m in grid.sent if m.metadata.message_type == "query.drift"][:1]
    changed = Message(copy.deepcopy(opening.content), opening.metadata.dst_node_id, "query.drift")
    changed.content["terms"]["check"] = "f" * 16
    change(changed.content)
    content = grid.again(changed)
    assert not content["numbers"]
    return said(content)


def keyed(*keys: AggregatorKey):
    def change(content) -> None:
        told = AggregatorNoise(tuple(key.public.hex() for key in keys))
        content["terms"]["noise"] = told.to_json()

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (keyed(KEYS[1], KEYS[0]), "WrongAggregator"),
        (keyed(KEYS[0], AggregatorKey.generate()), "WrongAggregator"),
        (keyed(KEYS[0]), "claims trust model 'trusted-aggregator'"),
        (lambda c: c["terms"].update(cells=[5]), "names a cell that it does not have"),
        (lambda c: c["terms"].update(cells=[3, 3]), "one number for each column"),
        (lambda c: c["terms"].update(noise="[]"), "the terms of the check: noise"),
        (lambda c: c.pop("terms"), "the terms of the check: another version"),
    ],
)
def test_a_client_seals_for_the_terms_it_agreed_to_only(change, why):
    assert why in asked(change)


def test_a_client_sends_one_parcel_a_check():
    monitor().check(grid := federation())
    (opening, *_) = [m for m in grid.sent if m.metadata.message_type == "query.drift"]
    content = grid.again(opening)
    assert "AnsweredAlready" in said(content)
    assert not content["numbers"]


def test_an_aggregator_without_a_list_of_clients_refuses():
    with pytest.raises(CheckFailed, match="drift-roster"):
        monitor().check(federation(apps=aggregators(roster=None)))


def test_clients_need_a_key_to_sign_with():
    with pytest.raises(ValueError, match="secure_sum"):
        people(secure_sum=None)


def test_what_a_client_may_claim_of_a_period_is_limited():
    """Else one client could prove counts of 2**31 records, as how many it has is not public."""
    night = Period("day", "2026-11-24", "2026-11-25")
    keys = tuple(AggregatorKey.generate().public for _ in range(2))
    trust = TwoAggregators(3.0, aggregators=keys)
    with pytest.raises(ValueError, match="most_records"):
        KLDrift(OF_TABLE, trust, period=night)
    KLDrift(OF_TABLE, trust, period=night, most_records=150)
