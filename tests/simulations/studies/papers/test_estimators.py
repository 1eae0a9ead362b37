"""The papers' estimators: what they read, and that they go where anybody's own estimator goes."""

from functools import partial

import numpy as np
import pytest
from federation import REFERENCE, SHARES, grid_of

from flwr_kld.errors import EstimateUndefined
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.simulations.studies.papers.estimators import paper
from flwr_kld.strategies import KLDrift, Trusted


def test_without_noise_it_is_kl_whatever_lambda_adds(plan_for, release, exact, zipf):
    p = zipf(20)
    h = np.arange(100, 120)
    counts = release(plan_for(p), h, np.inf)
    plain = exact(p, h, theta=0.0)
    assert paper(counts).value == pytest.approx(plain)
    # sum Pi (r - 1) = 0 when every symbol is asked: lambda must cancel
    assert paper(counts, lam=0.7).value == pytest.approx(plain)
    assert paper(counts).theta == 0.0


def test_unseen_symbols_are_clipped_at_tau(plan_for, release):
    p = np.full(20, 0.05)
    h = np.where(np.arange(20) == 0, 0, 100)
    counts = release(plan_for(p), h, np.inf)
    rest = -0.95 * np.log(20 / 19)
    assert paper(counts, tau=1e-3).value == pytest.approx(rest - 0.05 * np.log(1e-3 / 0.05))


def test_privacy_deviation_matches_fresh_noise(plan_for, release, zipf):
    p = zipf(20)
    h = np.full(20, 400)
    plan = plan_for(p)
    runs = [paper(release(plan, h, 0.5, seed), lam=0.1) for seed in range(200)]
    told = np.sqrt(np.mean([run.error.privacy**2 for run in runs]))
    assert told == pytest.approx(np.std([run.value for run in runs]), rel=0.25)


def test_refuses_bad_options(plan_for, release, zipf):
    counts = release(plan_for(zipf(20)), np.full(20, 100), 1.0)
    with pytest.raises(ValueError, match="lam"):
        paper(counts, lam=-1.0)
    with pytest.raises(ValueError, match="tau"):
        paper(counts, tau=0.0)


def test_it_goes_where_an_estimator_of_ones_own_goes():
    monitor = KLDrift(REFERENCE, Trusted(epsilon=3.0), estimator=paper)
    report = monitor.check(grid_of())
    assert report.reading.theta == 0
    assert (
        abs(report.reading.estimate - skewed_divergence(REFERENCE.probabilities, SHARES, 0)) < 0.15
    )


def undefined(counts, *, theta):
    raise EstimateUndefined("a count is not positive")


def test_what_could_not_be_estimated_names_the_function_and_no_address():
    for estimator in (undefined, partial(undefined)):
        monitor = KLDrift(REFERENCE, Trusted(epsilon=3.0), estimator=estimator)
        reading = monitor.check(grid_of()).reading
        assert (reading.estimate, reading.estimator) == (None, "undefined")
