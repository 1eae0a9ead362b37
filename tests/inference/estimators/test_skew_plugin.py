import numpy as np
import pytest

from flwr_kld.inference.estimators.skew_plugin import skew_plugin


def test_without_noise_it_is_exact(plan_for, release, exact, zipf):
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


def test_privacy_deviation_matches_fresh_noise(plan_for, release, zipf):
    p = zipf(50)
    h = (p * 20_000).astype(int)
    plan = plan_for(p)
    runs = [skew_plugin(release(plan, h, 0.5, seed)) for seed in range(150)]
    told = np.sqrt(np.mean([run.error.privacy**2 for run in runs]))
    assert told == pytest.approx(np.std([run.value for run in runs]), rel=0.3)
