"""What a check says, and on which grounds."""

import re
from dataclasses import dataclass, replace

import pytest

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.decision import (
    Divergence,
    Outside,
    Population,
    decide,
    held_against_estimates,
    ranked,
    table_verdict,
)
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.outside import OutsideFraction, OutsideLimits
from flwr_kld.infer.verdict import Cause, Outcome

QUIET, LOUD = (EDetector(0.03, checks=5, evidence=value) for value in (0.1, 40.0))


@dataclass(frozen=True)
class Limit:
    value: float
    level: float = 0.95

    def resolves(self, wanted):
        return f"3 times the records for {wanted:g}"


def decided(upper, lower=0.01, p_value=0.9, drawn=None, evidence=QUIET, outside=None, **options):
    return decide(
        Divergence(0.1, lower, Limit(upper), p_value, drawn), outside, evidence,
        alarm=Alarm(), level=1e-4, about="these 30 clients", **options
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "outcome", "cause"),
    [
        ({"upper": 0.19}, Outcome.NO_DRIFT, Cause.LIMITS),
        ({"upper": 0.21}, Outcome.INCONCLUSIVE, Cause.LIMITS),
        ({"upper": 0.19, "p_value": 9e-5}, Outcome.DRIFT, Cause.DIVERGENCE),
        ({"upper": 0.19, "evidence": LOUD}, Outcome.DRIFT, Cause.EVIDENCE),
        ({"upper": 0.19, "lower": 0.12}, Outcome.INCONCLUSIVE, Cause.NEAR),
    ],
)
def test_each_ground_has_its_verdict(options, outcome, cause):
    verdict = decided(**options)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.reason.endswith("; this is about these 30 clients")


def test_bounds_stay_where_a_divergence_can_be():
    verdict = decided(0.0, lower=-0.02)
    assert verdict.lower_bound == verdict.upper_limit == 0


def test_a_check_that_found_nothing_is_quiet_if_it_would_have_seen_something():
    verdict = decided(0.21, seen_from=lambda: 0.135)
    assert verdict.outcome is Outcome.NO_ALARM
    assert verdict.seen_from == 0.135
    assert "0.135 nats" in verdict.reason
    assert verdict.cause is Cause.FORECAST
    assert "tolerated 0.1 nats" in verdict.reason
    assert verdict.resolve is None


@pytest.mark.parametrize(
    "options",
    [
        {"lower": 0.12},
        {"p_value": 9e-5},
        {"evidence": LOUD},
        {"outside": Outside(OutsideLimits(0.0, 0.2, 0.0), 1.0)},
    ],
)
def test_whatever_was_found_is_not_quiet(options):
    verdict = decided(0.21, seen_from=lambda: 0.135, **options)
    assert verdict.outcome in (Outcome.DRIFT, Outcome.INCONCLUSIVE)
    assert verdict.seen_from is None


def test_what_excludes_drifts_of_every_shape_need_not_be_forecast():
    def never():
        raise AssertionError("a forecast takes a while")

    assert decided(0.19, seen_from=never).outcome is Outcome.NO_DRIFT


@pytest.mark.parametrize(
    ("population", "cohort", "taken_back"),
    [(0.09, 0.19, False), (0.11, 0.12, True), (0.05, 0.21, True)],
)
@pytest.mark.parametrize("limit", [0.19, 0.21])
def test_no_all_clear_stands_beside_an_estimate_above_the_threshold(
    population, cohort, taken_back, limit
):
    verdict = decided(limit, seen_from=lambda: 0.15)
    held = held_against_estimates(verdict, population, cohort, None)
    assert (held.outcome is Outcome.INCONCLUSIVE) == taken_back
    # Excluded and estimated all the same, or an estimate beyond noise, which is 0 here; else the
    # cohort's own number is chance, as data are few
    assert not taken_back or held.suspected == (limit == 0.19 or population > 0.1)


@pytest.mark.parametrize(
    ("estimate", "deviation", "suspected"),
    [(0.7, 0.1, True), (0.7, 0.4, False), (0.09, 0.0, False), (None, 0.0, False)],
)
def test_an_estimate_far_above_the_threshold_is_a_suspicion_and_not_a_want_of_data(
    estimate, deviation, suspected
):
    verdict = decided(0.3)
    held = held_against_estimates(verdict, estimate, 0.7, None, deviation=deviation)
    assert held.outcome is Outcome.INCONCLUSIVE
    assert held.suspected is suspected


def test_records_outside_that_are_too_many_are_a_suspicion():
    outside = Outside(OutsideLimits(0.04, 0.2, 0.05), 1.0)
    for upper, seen in ((0.05, None), (0.21, 0.15), (0.3, None)):
        verdict = decided(upper, outside=outside, seen_from=lambda seen=seen: seen)
        assert not verdict.suspected
        for share, suspected in ((0.12, True), (0.06, False)):
            found = OutsideFraction(share, 0.01, ())
            held = held_against_estimates(verdict, 0.0, 0.0, found)
            assert held.suspected is suspected


def test_whoever_may_have_too_many_records_outside_is_not_called_quiet_about_the_divergence():
    limits = OutsideLimits(0.0, 0.2, 0.0)
    verdict = decided(0.21, seen_from=lambda: 0.135, outside=Outside(limits, 1.0))
    assert verdict.cause is Cause.LIMITS
    assert "0.135" not in verdict.reason  # a forecast beside whatever the estimate is
    percents = [float(one) for one in re.findall(r"[\d.]+", verdict.reason.partition(";")[0])]
    assert percents == pytest.approx([9.52, 0.0, 9.52], rel=1e-2)  # limit, tolerated, the rest


def test_an_estimate_that_reads_as_the_threshold_is_called_a_little_above_it():
    verdict = decided(0.1)
    for estimate, little in ((0.1004, True), (0.102, False)):
        reason = held_against_estimates(verdict, estimate, None, None).reason
        assert ("a little above" in reason) is little


@pytest.mark.parametrize(("deviation", "suspected"), [(0.04, True), (0.06, False)])
def test_chance_above_the_threshold_where_data_are_few_is_no_suspicion(deviation, suspected):
    quiet = decided(0.21, seen_from=lambda: 0.15)
    held = held_against_estimates(quiet, 0.2, 0.2, None, deviation=deviation)
    assert held.outcome is Outcome.INCONCLUSIVE
    assert held.suspected is suspected


def test_nothing_would_have_been_seen_without_an_estimate():
    excluded, quiet = (decided(x, seen_from=lambda: 0.15) for x in (0.19, 0.21))
    assert held_against_estimates(excluded, None, 0.19, None).outcome is Outcome.NO_DRIFT
    assert held_against_estimates(quiet, None, 0.19, None).outcome is Outcome.INCONCLUSIVE


def test_a_share_outside_that_is_not_excluded_is_no_all_clear():
    verdict = decided(0.1, outside=Outside(OutsideLimits(0.0, 0.2, 0.0), 1.0))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "outside the reference" in verdict.reason


def test_what_is_inconclusive_says_what_would_resolve_it():
    verdict = decided(0.3)
    assert verdict.resolve == "3 times the records for 0.2"
    assert (verdict.lower_bound, verdict.upper_limit) == (0.01, 0.3)


def population(**options):
    usual = {
        "clients": 60, "value": 0.3, "error": 0.02, "tolerated": 0.1, "level": 1e-4,
        "missed_level": 1e-4, "least": lambda clients: 0.3 * (1 - 9 / clients),
    }  # fmt: skip
    return Population(**usual | options)


def test_drawn_clients_have_drifted_if_their_population_shows_it_whatever_they_missed():
    verdict = decided(0.3, p_value=1e-9, drawn=population())
    assert verdict.outcome is Outcome.DRIFT
    assert "unless the draw missed a kind with more than 14 % of its" in verdict.reason


def test_unknown_sizes_are_a_condition_of_what_is_said_of_a_population():
    for known in (True, False):
        reason = decided(0.3, p_value=1e-9, drawn=population(sizes_known=known)).reason
        assert ("far more records than the others" in reason) is not known


@pytest.mark.parametrize(
    "less",
    [
        {"error": 0.05},  # three and a half errors
        {"value": 0.12},
        {"least": lambda clients: 0.3 * (1 - 45 / clients)},  # explained by other clients
        {"value": -float("inf")},  # no estimate
    ],
)
def test_what_may_be_chance_of_the_draw_is_no_drift_and_says_how_many_would_tell(less):
    verdict = decided(0.3, p_value=1e-9, drawn=population(**less))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.cause is Cause.DRAW
    assert "drawing" in verdict.resolve


def test_the_fraction_outside_needs_its_population_as_well():
    for drawn, outcome in (
        (population(), Outcome.DRIFT),
        (population(error=0.1), Outcome.INCONCLUSIVE),
    ):
        outside = Outside(OutsideLimits(0.3, 0.4, 0.1), 1e-9, drawn)
        assert decided(0.3, outside=outside).outcome is outcome


def test_more_clients_tell_more():
    few = population(error=0.06)
    assert "about 87 clients" in few.resolve  # 4 errors of .06 √(60 / n) below .2
    assert population(value=0.1).resolve == "asking all clients, or drawing many more"


def test_what_is_suspected_comes_before_what_is_inconclusive():
    near, far = decided(0.3, lower=0.12), replace(decided(0.3), lower_bound=0.3)
    assert near.suspected
    assert not far.suspected
    assert ranked({"far": far, "near": near}) == ["near", "far"]
    assert table_verdict({"far": far, "near": near}).suspected
