"""What one client may do to a check: it is held to a limit, or said that nothing holds it."""

import logging

import numpy as np
import pytest
import split_federation
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from sealed_federation import KEY, federation
from sealed_federation import monitor as sealing
from tables import REFERENCE as TABLE
from tables import rows, table_app

from flwr_kld.clients import FirstUse
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report import CheckSeries, Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.report.in_lines import report_lines
from flwr_kld.report.report import Report
from flwr_kld.strategies import Distributed, KLDrift, Period, SecureSum, Statistics, Trusted

SAME = (*REFERENCE.probabilities[: len(FRUIT.names)], 0.0, 0.0)
LIAR = 1000
NAME = f"{LIAR}:0"


def world(each=100, own=30_000, shares=SHARES, of_liar=SAME, **options):
    """Clients of `each` records, but the first one: of so many, in other shares."""

    def records(context):
        first = context.node_id == LIAR
        return basket(context, own if first else each, of_liar if first else shares)

    return app_of(records, **options)


def divergence(*parts):
    """Exact D_θ of records in these shares, each given with its weight."""
    law = sum(weight * np.array(shares) for weight, shares in parts)
    return skewed_divergence(REFERENCE.probabilities, law / law.sum(), 0.01)


def check(path, app_options, nodes=20, epsilon=3.0, **options) -> Report:
    options = {"threshold": 0.05, **options}
    if path == "sealed":
        return sealing(epsilon, **options).check(
            federation(world(**app_options, aggregator=KEY.public))
        )
    return KLDrift(REFERENCE, Trusted(epsilon), **options).check(
        grid_of(world(**app_options), nodes)
    )


@pytest.mark.parametrize("own", [30_000, 10**6])
@pytest.mark.parametrize(("path", "nodes"), [("plain", 20), ("sealed", 20), ("plain", 60)])
def test_a_client_that_claims_most_of_the_records_hides_no_drift(path, nodes, own):
    """Its records look like the reference."""
    report = check(path, {"own": own}, nodes)
    assert report.outcome is Outcome.DRIFT
    assert report.reading.estimate > 0.19  # .29 with four parts in 23, ± .016
    if nodes == 20:
        one = report.one_client
        assert one.over[NAME] == own
        assert one.most_records == 400
        assert one.left_out > 0.8
        assert NAME in one.note
        assert f"counting at most {one.most_records} records" in report.reading.drawn_from
        assert report.verdict.population.endswith(f"at most {one.most_records} records of each")


@pytest.mark.parametrize("liars", [1, 3])
def test_clients_that_claim_much_in_either_half_make_no_drift_that_is_not_there(liars):
    """Three of 60 claim 300 times as much of what looks otherwise: a tenth and a third at most."""

    def records(context):
        lies = context.node_id < LIAR + liars
        return basket(context, 30_000 if lies else 100, SHARES if lies else SAME)

    report = KLDrift(REFERENCE, Trusted(3.0), threshold=0.3).check(grid_of(app_of(records), 60))
    assert report.outcome is not Outcome.DRIFT
    assert report.reading.estimate < 0.3  # .44 is the liars' own


def test_three_clients_of_whom_one_lies_say_how_much_one_may_hold():
    report = check("plain", {"own": 30_000}, nodes=3, epsilon=20.0)
    one = report.one_client
    assert one.over.keys() == {NAME}
    assert one.share == pytest.approx(2 / 3, abs=0.08)  # four of six
    assert "% of the records in a sum" in one.note
    truth = divergence((1 / 3, SHARES), (2 / 3, SAME))
    assert abs(report.reading.estimate - truth) < 0.1  # six standard deviations


def test_clients_that_are_all_alike_lose_nothing_and_nothing_is_noted():
    report = check("plain", {"own": 100, "shares": SAME}, nodes=60, about="the population")
    assert report.one_client.over == {}
    assert report.one_client.left_out == 0
    assert report.one_client.share == pytest.approx(1 / 30, abs=1e-3)
    assert report.one_client.note is None
    assert report.reading.records == 3000


def test_one_honest_giant_gets_a_true_statement_about_those_who_count():
    """It holds a third of all records, and they differ: it counts for four of 23."""
    report = check("plain", {"own": 950, "shares": SAME, "of_liar": SHARES}, epsilon=20.0)
    one = report.one_client
    counted = divergence((19 * 100, SAME), (one.most_records, SHARES))
    assert divergence((19 * 100, SAME), (950, SHARES)) > 2 * counted
    assert abs(report.reading.estimate - counted) < 0.022  # six standard deviations
    assert one.left_out == pytest.approx((950 - 400) / 2850, abs=1e-3)
    assert f"at most {one.most_records} records of each" in report.reading.drawn_from
    assert f"at most {one.most_records} records of each" in report.verdict.population


def test_the_operator_may_allow_a_giant_all_its_records():
    report = check("plain", {"own": 950}, most_records=500_000)
    assert report.one_client.over == {}
    assert report.one_client.most_records == 500_000
    assert report.one_client.share > 0.2


def test_who_has_no_record_does_not_lower_the_limit():
    report = check("plain", {"own": 0}, nodes=20)
    assert report.one_client.most_records == 400


def test_both_halves_are_held_to_one_limit():
    """The deciding one to what the largest of the first half has."""
    clips = set()

    def watch(message):
        question = message.content["terms"]
        if question["check"].endswith("-2"):
            clips.add(question["most_records"])
        return False

    monitor = KLDrift(REFERENCE, Trusted(3.0), threshold=0.05, about="the population")
    report = monitor.check(grid_of(nodes=60, lose=watch))
    assert clips == {100}
    assert report.one_client.most_records >= 100


def test_a_table_is_held_to_one_limit_in_all_columns():
    def records(context):
        lies = context.node_id == LIAR
        return rows(context, 30_000, (0.4, 0.3, 0.2, 0.1)) if lies else rows(context)

    grid = grid_of(table_app(records), 20)
    report = KLDrift(TABLE, Trusted(8.0, 1e-6), threshold=0.05).check(grid)
    assert report.columns["fruit"].verdict.outcome is Outcome.DRIFT
    assert report.columns["juice"].verdict.outcome is not Outcome.DRIFT
    assert report.one_client.over.keys() == {NAME}
    assert len({round(column.reading.records) for column in report.columns.values()}) == 1


def test_whoever_claims_too_much_is_named_in_the_log(caplog):
    with caplog.at_level(logging.WARNING, "flwr_kld"):
        report = check("plain", {})
    assert any(NAME in line for line in caplog.messages)
    assert report.cohort.dropouts == {}


@pytest.mark.parametrize(("own", "noted"), [(430, False), (500, True), (30_000, True)])
def test_a_note_is_worth_more_than_a_few_records(own, noted):
    """Of 60 clients and 6,000 records: 30 beyond the limit, 100, or nearly all."""
    report = KLDrift(REFERENCE, Trusted(3.0)).check(grid_of(world(own=own), 60))
    assert report.one_client.over == {NAME: own}
    assert (report.one_client.note is not None) == noted
    assert str(own) in report.one_client.cut.replace(",", "")


def test_a_reference_of_clients_is_not_one_clients():
    grid = grid_of(world())
    report = Statistics(FRUIT, Trusted(3.0)).ask(grid)
    reference = report.as_reference(FRUIT)
    assert report.one_client.over == {NAME: 30_000}
    assert NAME in str(report)
    assert reference.probabilities[3] > 0.25  # .33; the liar says .1, everybody else .4


def test_hidden_sizes_allow_no_limit_and_that_is_said():
    night = Period("day", "2026-11-24", "2026-11-25")
    app = table_app(lambda context: rows(context) | {"day": ["2026-11-24"] * 100})
    report = KLDrift(TABLE, Trusted(3.0), period=night).check(grid_of(app, 60))
    assert (report.one_client.most_records, report.one_client.share) == (None, None)
    assert "WholeClients" in report.one_client.note
    assert "nothing limits" in "\n".join(report_lines(report))
    whole = Trusted(20.0, protects=WholeClients(100))
    report = KLDrift(REFERENCE, whole, threshold=0.05).check(grid_of(world(own=100), 60))
    assert report.one_client.most_records == 100
    assert 0 < report.one_client.share < 0.2
    assert report.one_client.note is None


def reports_of_sums_that_nobody_sees():
    app = app_of(secure_sum=FirstUse())
    monitor = KLDrift(REFERENCE, Trusted(3.0), aggregation=SecureSum(), threshold=0.05)
    yield monitor.check(grid_of(app))
    shares = Distributed(3.0, min_clients=10)
    monitor = KLDrift(REFERENCE, shares, aggregation=SecureSum(), threshold=0.05)
    yield monitor.check(grid_of(app_of(secure_sum=FirstUse())))
    yield split_federation.monitor(threshold=0.05).check(split_federation.federation())


@pytest.mark.usefixtures("no_plots")
def test_where_nobody_sees_a_client_everything_holds_if_none_lies():
    condition = "if no client lies"
    for report in reports_of_sums_that_nobody_sees():
        assert condition in report.verdict.reason
        assert all(condition in how for how in report.verdict.holds.values())
        assert condition in str(report)
        assert condition in "\n".join(report_lines(report))
        assert condition in CheckSeries([Point(1, report)]).to_html(title="t")
        read = Report.from_json(report.to_json())
        assert condition in read.verdict.reason
        assert read.one_client == report.one_client
        assert not read.one_client.held


@pytest.mark.usefixtures("no_plots")
def test_where_somebody_sees_clients_text_and_page_say_what_one_may_hold():
    report = check("plain", {})
    for said in (
        str(report),
        "\n".join(report_lines(report)),
        CheckSeries([Point(1, report)]).to_html(title="t"),
    ):
        assert NAME in said
        assert "if no client lies" not in said
    assert Report.from_json(report.to_json()).one_client == report.one_client


def test_a_seed_repeats_a_check_in_which_a_client_is_held_to_the_limit():
    def estimate():
        monitor = KLDrift(REFERENCE, Trusted(3.0), seed=7)
        report = monitor.check(grid_of(world()))
        assert report.one_client.over == {NAME: 30_000}
        return report.reading.estimate

    assert estimate() == pytest.approx(estimate(), rel=1e-12)
