"""Few clients, or few records each: checks work, or say in words why they decide nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.report import Outcome
from flwr_kld.report.decider import Decider
from flwr_kld.simulations import simulate
from flwr_kld.strategies import (
    Alarm,
    KLDrift,
    Trusted,
    UniformCohort,
)

TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
SAME = tuple(REFERENCE.probabilities[: len(FRUIT.names)])
ALONE = Alarm(horizon=1)


def answering(records, domain):
    app = ClientApp()
    answer_drift_queries(app, lambda context, member=0: records(context), domain)
    return app


def monitor(epsilon=1.0, **options):
    return KLDrift(REFERENCE, Trusted(epsilon), threshold=0.05, alarm=ALONE, **options)


@pytest.mark.parametrize(("clients", "each"), [(150, 1), (39, 3), (12, 5)])
def test_few_records_each_are_too_few_to_say_no_drift_and_that_is_said(clients, each):
    """At ε = .05 no power is there, whatever was drawn."""
    rng = np.random.default_rng(clients)

    def records(context):
        return rng.choice(FRUIT.names, each, p=SAME).tolist()

    report = monitor(0.05).check(grid_of(app_of(records), clients))
    assert report.outcome is not Outcome.NO_DRIFT
    assert "nats" in report.verdict.reason or "outside" in report.verdict.reason
    assert (report.cohort.asked, report.cohort.survivors) == (clients, clients)
    assert report.reading.records == clients * each


@pytest.mark.parametrize("nodes", [30, 60])
def test_the_order_of_records_does_not_matter(nodes):
    """Sorted by label, as the reference: a half of each client's records has its shares.

    With 15 records or more of each label, half of them everywhere: 2 N D is below half a χ² with 3
    degrees of freedom, so that D > 0.015 has probability below 1e-9.
    """

    def ordered(context):
        return sorted(basket(context, shares=SAME))

    report = monitor(20.0).check(grid_of(app_of(ordered), nodes))
    assert report.reading.estimate < 0.015
    assert report.outcome is not Outcome.DRIFT  # a design effect read too large: inconclusive


def test_a_drift_is_found_in_ordered_records():
    def ordered(context):
        return sorted(basket(context, each=1000))

    report = monitor(20.0).check(grid_of(app_of(ordered), 30))
    assert report.outcome is Outcome.DRIFT
    assert abs(report.reading.estimate - TRUTH) < 0.045  # over seven standard deviations


@pytest.mark.parametrize(
    ("cohort", "options", "drawn_from"),
    [
        (None, {}, "these 60 clients"),
        (UniformCohort(50), {}, "the clients that these 50 were drawn from"),
        (
            UniformCohort(50),
            {"most_records": 60},
            "the clients that these 50 were drawn from, counting at most 60 records of each",
        ),
    ],
)
def test_estimates_say_whose_they_are_and_verdicts_how_often_they_err(cohort, options, drawn_from):
    alarm = Alarm(horizon=50)
    monitor = KLDrift(
        REFERENCE, Trusted(1.0), threshold=0.05, alarm=alarm, cohort=cohort, **options
    )
    report = monitor.check(grid_of(nodes=60))
    assert report.reading.of_population.whose == drawn_from
    assert "; this is about these" in report.verdict.reason
    warned = "not among these 50" in (report.reading.note or "")
    assert warned == (cohort is not None)
    assert (report.verdict.alarm.rate, report.verdict.alarm.horizon) == (0.05, 50)
    assert report.verdict.detector is None


def test_nobody_is_counted_in_the_population_who_was_not():
    """Three of ten do not answer."""
    lost = {1001, 1002, 1003}
    grid = grid_of(nodes=10, lose=lambda message: message.metadata.dst_node_id in lost)
    assert monitor().check(grid).verdict.reason.endswith("this is about these 7 clients")


def of_one_kind(context):
    """Each client holds one fruit alone, more of them the last one than the reference has."""
    kinds = np.repeat(np.arange(len(FRUIT.names)), (22, 14, 7, 17)[: len(FRUIT.names)])
    return [FRUIT.names[kinds[int(context.node_config["partition-id"]) % len(kinds)]]] * 100


def test_clients_of_one_kind_each_are_a_drift_if_all_are_asked_and_chance_if_drawn():
    """60 of 60 clients, or 60 of 240: as a sample they tell little, of themselves nearly all."""
    themselves = monitor(4.0).check(grid_of(app_of(of_one_kind), 60))
    assert themselves.outcome is Outcome.DRIFT
    drawn = monitor(4.0, cohort=UniformCohort(60)).check(grid_of(app_of(of_one_kind), 240))
    assert drawn.outcome is Outcome.INCONCLUSIVE
    assert drawn.verdict.cause == "draw"
    assert "clients" in drawn.verdict.resolve


@pytest.mark.parametrize(("symbols", "rows"), [(20, 60), (50, 100), (100, 400)])
def test_a_small_reference_makes_no_drift_of_nothing_and_says_what_it_hides(symbols, rows):
    """Without an allowance each of these says drift: the reference itself lies .1 nats off."""
    rng = np.random.default_rng(rows)
    law = 1 / np.arange(1, symbols + 1)
    law /= law.sum()
    domain = Labels(list(range(symbols)))
    reference = Reference.from_samples(domain, rng.choice(symbols, rows, p=law).tolist())
    truth = skewed_divergence(reference.probabilities, [*law, 0, 0], 0.01)
    assert truth > 0.1
    app = answering(lambda context: rng.choice(symbols, 400, p=law).tolist(), domain)
    exact = replace(reference, records=None)
    grid = grid_of(app, 50)
    told = KLDrift(reference, Trusted(1.0), threshold=0.05).check(grid)
    assert told.outcome is Outcome.INCONCLUSIVE
    assert told.lower_bound < told.upper_limit
    assert f"{rows} records" in told.verdict.reason
    assert "reference of about" in told.verdict.resolve
    assert KLDrift(exact, Trusted(1.0), threshold=0.05).check(grid).outcome is Outcome.DRIFT


@pytest.mark.parametrize("rows", [60, 1000])
def test_no_year_of_checks_tests_less_than_its_reference_is_off(rows):
    """Chance in a reference is one draw for all checks of a year: it may not bring an alarm."""
    rng = np.random.default_rng(rows)
    for law in (np.ones(20), 1 / np.arange(1, 21), 1 / np.arange(1, 201)):
        true = np.append(law / law.sum(), [0.0, 0.0])
        domain = Labels(list(range(len(law))))
        off = []
        for _ in range(50):
            reference = Reference.from_counts(domain, rng.multinomial(rows, true))
            decider = Decider(0.05, 0.05, Alarm(), reference, "x")
            nats, outside = decider.tested
            away = skewed_divergence(reference.probabilities, true, 0.01)
            off.append(away > 0.05)
            assert away < nats
            assert true[reference.probabilities == 0].sum() < outside
        if rows <= 100:
            assert np.mean(off) > 0.8  # so often every check would be false without that


def test_a_large_reference_costs_next_to_nothing():
    many = Reference.from_counts(FRUIT, [40_000, 30_000, 20_000, 10_000])
    report = KLDrift(many, Trusted(20.0), threshold=0.05).check(grid_of(nodes=60))
    assert report.outcome is Outcome.DRIFT
    assert TRUTH - report.lower_bound < 0.1
    assert "reference" not in report.verdict.reason


def test_no_limit_is_above_the_most_that_the_divergence_can_be():
    """A reference that is a sample widened it: 5.6 nats were said, of at most 4.6."""
    reference = Reference.from_samples(Labels(["a", "b"]), ["a"] * 300)
    report = simulate(KLDrift(reference, Trusted(5.0), threshold=0.05), ["b"] * 4000, clients=20)
    assert report.upper_limit == pytest.approx(math.log(100))
