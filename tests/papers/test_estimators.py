"""The papers' estimators: what they read, and that they go where anybody's own estimator goes."""

from functools import partial

import numpy as np
import pytest
from federation import REFERENCE, SHARES, app_of, basket, grid_of

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.papers.estimators import MonteCarlo, paper, skew_plugin
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


def test_without_noise_the_skewed_reading_is_exact(plan_for, release, exact, zipf):
    p = np.append(zipf(50), 0.0)
    h = np.random.default_rng(0).integers(0, 30, 51)
    got = skew_plugin(release(plan_for(p), h, np.inf), theta=0.05)
    assert got.value == pytest.approx(exact(p, h, 0.05), abs=1e-12)
    assert got.error.privacy == 0


def test_negative_counts_are_zero(plan_for, release, exact):
    p = np.full(20, 0.05)
    h = np.where(np.arange(20) < 10, 0, 60)
    counts = release(plan_for(p), h, 0.5, seed=3)
    assert (counts.values < 0).any()
    read = np.maximum(counts.values, 0) / (counts.records * 0.05)
    assert skew_plugin(counts).value == pytest.approx(-0.05 * np.log(0.99 * read + 0.01).sum())


def test_theta_zero_needs_positive_counts(plan_for, release):
    p = np.full(20, 0.05)
    even = skew_plugin(release(plan_for(p), np.full(20, 9), np.inf), theta=0.0)
    assert even.value == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="theta=0"):
        skew_plugin(release(plan_for(p), np.arange(20), np.inf), theta=0.0)


def test_privacy_deviation_of_the_skewed_reading_matches_fresh_noise(plan_for, release, zipf):
    p = zipf(50)
    h = (p * 20_000).astype(int)
    plan = plan_for(p)
    runs = [skew_plugin(release(plan, h, 0.5, seed)) for seed in range(150)]
    told = np.sqrt(np.mean([run.error.privacy**2 for run in runs]))
    assert told == pytest.approx(np.std([run.value for run in runs]), rel=0.3)


def test_monte_carlo_plan_and_paper_estimator():
    monitor = KLDrift(REFERENCE, Trusted(epsilon=3.0), plan=MonteCarlo(draws=4000), estimator=paper)
    report = monitor.check(grid_of())
    assert report.reading.theta == 0
    assert report.reading.monte_carlo > 0
    assert (
        abs(report.reading.estimate - skewed_divergence(REFERENCE.probabilities, SHARES, 0)) < 0.15
    )


def test_what_could_not_be_estimated_names_the_function_and_no_address():
    """Nobody here likes a fruit of the reference: plain KL is infinite."""
    nobody = app_of(lambda c: basket(c, shares=(0.4, 0.3, 0.3, 0.0)))
    for estimator in (skew_plugin, partial(skew_plugin)):
        monitor = KLDrift(REFERENCE, Trusted(epsilon=3.0), estimator=estimator, theta=0.0, seed=5)
        reading = monitor.check(grid_of(nobody)).reading
        assert (reading.estimate, reading.estimator) == (None, "skew_plugin")
