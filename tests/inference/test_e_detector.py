"""The alarm over checks: rare without drift, soon with it, the same after a restart."""

import json
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from flwr_kld.inference.e_detector import EDetector
from flwr_kld.inference.evidence import Evidence

GROUPS, YEAR = 10, 365


def evidence(rng, drift=0.0, law="normal"):
    """One check's excess: `drift` in standard errors of the check's mean."""
    noise = {
        "normal": rng.standard_normal(GROUPS),
        "laplace": rng.laplace(0, 0.5**0.5, GROUPS),
        "tail below": 1 - rng.exponential(1.0, GROUPS),
    }[law]
    excess = noise + drift / GROUPS**0.5
    return Evidence(tuple(excess.tolist()), spread=float(excess.var(ddof=1)), threshold=0.1)


def first_alarm(rng, drift=0.0, law="normal", since=0, days=YEAR):
    detector = EDetector()
    for day in range(days):
        if detector.update(evidence(rng, drift * (day >= since), law)).alarmed:
            return day
    return None


@pytest.mark.parametrize("law", ["normal", "laplace", "tail below"])
def test_false_alarms_are_as_rare_as_stated(law):
    """At most 5 % of years, at the very boundary of no drift: 1e-6 quantile of 60 years."""
    rng = np.random.default_rng(1)
    alarms = sum(first_alarm(rng, law=law) is not None for _ in range(60))
    assert alarms <= binom.isf(1e-6, 60, 0.05)


def test_drift_is_found_in_days():
    rng = np.random.default_rng(2)
    for drift, most in ((1.0, 25), (2.0, 8)):
        delays = [first_alarm(rng, drift, since=50, days=150) - 49 for _ in range(30)]
        assert np.median(delays) <= most


def test_a_restart_changes_nothing():
    rng = np.random.default_rng(3)
    days = [evidence(rng, 1.0) for _ in range(40)]
    one, other = EDetector(), EDetector()
    for day in days:
        one.update(day)
        other = EDetector.restore(json.loads(json.dumps(other.state())))
        other.update(day)
    assert one.state() == other.state()


@pytest.mark.parametrize(
    "change", [{"schema": 99}, {"sums": [1.0]}, {"checks": -1}, {"squares": -1}]
)
def test_a_state_that_is_none_is_refused(change):
    with pytest.raises(ValueError, match=r"alarm|checks"):
        EDetector.restore({**EDetector().state(), **change})


def test_what_no_detector_can_be():
    for bad in ({"rate": 0.0}, {"rate": 1.0}, {"horizon": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            EDetector(**bad)
    for excess in ((1.0,), (1.0, float("nan"))):
        with pytest.raises(ValueError, match=r"evidence|excess|spread|threshold"):
            Evidence(excess, spread=1.0, threshold=0.1)


def test_clipping_raises_the_mean_of_some_bets():
    """Why the rate is no theorem for every law: an excess of mean 0 with a long tail below."""
    x, p = np.array([1.0, -9.0]), np.array([0.9, 0.1])
    assert abs(p @ x) < 1e-12
    standardised = x / np.sqrt(p @ x**2)
    growth = []
    for chosen in product((0, 1), repeat=4):  # exact mean over the laws of four groups
        excess = tuple(standardised[list(chosen)].tolist())
        detector = EDetector(horizon=1)
        standing = detector.update(Evidence(excess, spread=1.0, threshold=0.1))
        growth.append(p[list(chosen)].prod() * standing.evidence)
    assert sum(growth) > 1.05
