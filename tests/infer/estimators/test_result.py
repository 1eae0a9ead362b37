import numpy as np
import pytest

from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.result import ErrorSplit, above_zero
from flwr_kld.infer.estimators.score import score


def test_total_is_the_root_of_the_sum_of_squares():
    assert ErrorSplit(sampling=2.0, monte_carlo=3.0, privacy=6.0).total == pytest.approx(7.0)


@pytest.mark.parametrize("deviations", [-2.5, -1.0, 0.0, 0.3, 1.0, 2.5, 8.0])
def test_what_cannot_be_is_left_out_of_a_deviation(deviations):
    """The mean square distance from the estimate, of a normal law above 0."""
    value, deviation = 0.02 * deviations, 0.02
    at = np.linspace(0.0, max(value, 0.0) + 9 * deviation, 400_001)
    law = np.exp(-(((at - value) / deviation) ** 2) / 2)
    expected = (law @ (at - value) ** 2) / law.sum() / deviation**2
    assert above_zero(value, deviation) == pytest.approx(expected, rel=1e-3)


def test_any_estimate_has_a_deviation():
    assert above_zero(0.1, 0.0) == above_zero(0.0, 0.0) == 1.0
    assert np.isfinite([above_zero(-0.1, 0.0), above_zero(-1e300, 1e-9)]).all()


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("records", [60, 3000])
def test_sampling_deviation_matches_fresh_cohorts(plan_for, release, exact, zipf, records):
    p = zipf(20)
    q = p[::-1] * 0.3 + p * 0.7
    rng = np.random.default_rng(0)
    cohorts = rng.multinomial(records, q, size=400)
    plan = plan_for(p)
    told = [posterior_ratios(release(plan, h, np.inf)).cohort.error.sampling for h in cohorts[:40]]
    seen = np.std([exact(p, h) for h in cohorts])
    assert 0.75 < np.sqrt(np.mean(np.square(told))) / seen < 1.35


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("cells", [300, 1350])
def test_monte_carlo_deviation_matches_fresh_plans(plan_for, release, zipf, cells):
    p = zipf(1500)
    q = p * np.exp(np.random.default_rng(1).standard_normal(1500))
    h = np.random.default_rng(2).multinomial(3_000_000, q / q.sum())
    runs = [
        posterior_ratios(release(plan_for(p, cells=cells, seed=seed), h, np.inf)).cohort
        for seed in range(60)
    ]
    told = np.sqrt(np.mean([run.error.monte_carlo**2 for run in runs]))
    assert 0.6 < told / np.std([run.value for run in runs]) < 1.75


def test_score_is_the_skewed_divergence_of_a_pair():
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4, 0.0])
    mixed = 0.9 * q + 0.1 * p
    assert p @ score(q / p, 0.1) == pytest.approx((p * np.log(p / mixed)).sum())


def test_refuses_unknown_thetas(plan_for, release, zipf):
    counts = release(plan_for(zipf(20)), np.full(20, 100), 1.0)
    for theta in (-0.1, 1.0):
        with pytest.raises(ValueError, match="theta"):
            posterior_ratios(counts, theta=theta)
