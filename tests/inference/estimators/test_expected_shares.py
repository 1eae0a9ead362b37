import numpy as np
import pytest

from flwr_kld.inference.estimators.posterior_counts import expected_shares


def test_noise_without_drift_is_shrunk_away(plan_for, publish, zipf):
    plan = plan_for(zipf(500))
    h = np.random.default_rng(0).multinomial(5_000, plan.mass)
    shares = expected_shares(publish(plan, h, 0.5), theta=0.01)
    assert shares.sum() == pytest.approx(1)
    assert np.abs(np.log(shares / plan.mass)).max() < 0.15
    noisy = np.maximum(publish(plan, h, 0.5).values, 1) / 5_000
    assert np.abs(np.log(noisy / plan.mass)).max() > 1


def test_a_drift_is_kept(plan_for, publish, zipf, spread, in_cells):
    plan = plan_for(zipf(100))
    q = in_cells(plan, spread(zipf(100), 1.0))
    h = np.random.default_rng(0).multinomial(100_000, q)
    shares = expected_shares(publish(plan, h, 1.0), theta=0.01)
    assert float(q @ np.log(q / shares)) < 0.01  # the mixture's grid is 20 % apart
    assert float(q @ np.log(q / plan.mass)) > 0.2


def test_what_the_reference_says_is_impossible(plan_for, publish):
    plan = plan_for([0.5, 0.5, 0.0])
    cell = int(np.flatnonzero(plan.mass == 0)[0])
    counts = np.full(3, 250)
    counts[cell] = 500
    assert expected_shares(publish(plan, counts), theta=0.01)[cell] == pytest.approx(0.5, abs=0.02)
    counts[cell] = -40  # noise
    values = expected_shares(publish(plan, counts, np.inf), theta=0.01)
    assert values[cell] == 0
    assert (values >= 0).all()
