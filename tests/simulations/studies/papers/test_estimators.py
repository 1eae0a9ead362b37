"""The papers' estimators: what they read."""

import numpy as np
import pytest

from flwr_kld.simulations.studies.papers.estimators import paper


def test_without_noise_it_is_kl_whatever_lambda_adds(plan_for, release, exact, zipf):
    p = zipf(20)
    h = np.arange(100, 120)
    counts = release(plan_for(p), h, np.inf)
    plain = exact(p, h, theta=0.0)
    assert paper(counts).value == pytest.approx(plain)
    # sum Pi (r - 1) = 0 when every symbol is asked: lambda must cancel
    assert paper(counts, lam=0.7).value == pytest.approx(plain)


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
