"""Evidence that adds up over checks, and how often it errs."""

import json
import math

import numpy as np
import pytest

from flwr_kld.infer.e_detector import EDetector


def test_evidence_adds_up_and_forgets_what_was_lost():
    one = EDetector(0.05, 10).update(-5.0)
    assert one.evidence == pytest.approx(0.1 * math.exp(-5))
    two = one.update(math.log(250))
    assert two.evidence == pytest.approx((0.1 + 0.1 * math.exp(-5)) * 250)
    assert two.alarmed
    assert two.update(1e6).evidence == pytest.approx(30)


def test_an_alarm_ends_with_the_first_check_that_shows_nothing():
    """Whatever it gathered while a drift lasted: a p-value of 1 halves it."""
    detector = EDetector(0.05, 12)
    for _ in range(6):
        detector = detector.update(30.0)
        assert detector.alarmed
    assert not detector.update(-math.log(2)).alarmed


def test_a_state_is_read_back_exactly_and_others_are_refused():
    detector = EDetector(0.03, 365).update(1.234567)
    state = json.loads(json.dumps(detector.to_config()))
    again = EDetector.from_config(state)
    assert again.update(0.3) == detector.update(0.3)
    for wrong in ({"schema": 2}, {"evidence": -1.0}, {"rate": 2.0}):
        with pytest.raises(ValueError, match=r"state|rate"):
            EDetector.from_config(state | wrong)


def run_lengths(detector, growth, deviation, runs, seed):
    """Checks until each of many alarms, which all see normal ln e, by the detector's recursion."""
    rng, evidence = np.random.default_rng(seed), np.zeros(runs)
    lengths, checks = np.zeros(runs), 0
    while not lengths.all():
        checks += 1
        evidence = (evidence + 1 / detector.horizon) * np.exp(rng.normal(growth, deviation, runs))
        lengths[(lengths == 0) & (evidence >= 1 / detector.rate)] = checks
    return lengths


@pytest.mark.rate(1e-5)
def test_false_alarms_are_as_far_apart_as_is_said():
    """Bets of mean 1 alarm after 50 checks on average at least, and not after far more.

    The mean of 4,000 runs has a standard error of about 1; the sharp value is 50 times the mean
    overshoot, which is e^0.58 for bets of one standard deviation.
    """
    detector = EDetector(0.2, 10)
    mean = run_lengths(detector, -0.5, 1.0, 4000, seed=1).mean()
    assert 50 < mean < 50 * math.exp(0.7)


@pytest.mark.rate(1e-5)
def test_no_more_stretches_than_stated_have_a_false_alarm():
    detector = EDetector(0.2, 10)
    lengths = run_lengths(detector, -0.5, 1.0, 4000, seed=2)
    share = (lengths <= detector.horizon).mean()
    assert 0.02 < share <= 0.2


def test_the_recursion_of_these_tests_is_the_detectors():
    detector = EDetector(0.03, 365)
    (checks,) = run_lengths(detector, 0.4, 1e-12, 1, seed=0)
    for _ in range(int(checks) - 1):
        detector = detector.update(0.4)
        assert not detector.alarmed
    assert detector.update(0.4).alarmed
