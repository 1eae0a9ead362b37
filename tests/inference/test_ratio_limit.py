import math

import numpy as np
import pytest
from scipy.stats import t as student

from flwr_kld.inference.ratio_limit import ratio_limit


def covered(draw, level=0.95, runs=20_000, groups=10):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(runs):
        value, size, truth = draw(rng, groups)
        hits += ratio_limit(value, size, level).upper >= truth
    return hits / runs


def test_equal_sizes_give_students_limit():
    value = np.array([3.0, 4.0, 5.0, 6.0, 7.0])
    got = ratio_limit(value, np.full(5, 2.0), 0.95)
    assert got.point == pytest.approx(2.5)
    assert got.deviation == pytest.approx(value.std(ddof=1) / math.sqrt(5) / 2)
    assert got.upper == pytest.approx(2.5 + student.ppf(0.95, 4) * got.deviation, rel=1e-8)


def test_the_limit_is_where_the_test_stops_rejecting():
    rng = np.random.default_rng(3)
    size = rng.normal(100, 15, 8)
    value = 1.3 * size + rng.normal(0, 9, 8) - 30 * (np.arange(8) == 2)
    got = ratio_limit(value, size, 0.9)

    def statistic(mu):
        x = mu * size - value
        return x.mean() / (x.std(ddof=1) / math.sqrt(8))

    excess = got.point * size - value
    spread = excess.std()
    skewness = ((excess / spread) ** 3).mean() * math.sqrt(8 * 7) / 6
    quantile = student.ppf(0.9, 7)
    critical = quantile + max(-skewness, 0) / math.sqrt(8) * (2 * quantile**2 + 1) / 6
    assert statistic(got.upper) == pytest.approx(critical, rel=1e-6)
    assert statistic(got.upper * 1.01) > critical


def test_a_long_tail_of_values_raises_the_limit_and_a_short_one_does_not_lower_it():
    size = np.ones(6)
    tail = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 3.0])
    for value, corrected in ((tail, True), (-tail, False)):
        got = ratio_limit(value, size, 0.95)
        plain = value.mean() + student.ppf(0.95, 5) * value.std(ddof=1) / math.sqrt(6)
        assert bool(got.upper > plain + 0.1) == corrected
        assert got.upper >= plain


def test_groups_without_any_size_limit_nothing():
    assert ratio_limit(np.ones(4), np.zeros(4), 0.95).upper == math.inf
    assert math.isnan(ratio_limit(np.ones(4), -np.ones(4), 0.95).point)
    wild = ratio_limit(np.ones(4), np.array([1.0, -3.0, 9.0, -2.0]), 0.95)
    assert wild.upper == math.inf
    assert math.isfinite(wild.point)


def test_identical_groups_leave_no_margin():
    got = ratio_limit(np.full(5, 3.0), np.full(5, 2.0), 0.95)
    assert 1.5 < got.upper < 1.5 + 1e-8
    assert got.deviation == 0


def test_covers_normal_sums_as_promised():
    # Student covers 95.0 %; the skewness of 10 normals, where it happens to be one, adds 0.7.
    def normal(rng, groups):
        size = rng.normal(500, 20, groups)
        return 0.9 * size + rng.normal(0, 30, groups), size, 0.9

    assert abs(covered(normal) - 0.957) < 0.0075  # five standard deviations of 20,000 runs


def test_covers_skewed_sums_better_than_student():
    def skewed(rng, groups):
        return rng.gamma(0.5, 2.0, groups), np.ones(groups), 1.0

    def students(rng, groups):
        value = rng.gamma(0.5, 2.0, groups)
        plain = value.mean() + student.ppf(0.95, groups - 1) * value.std(ddof=1) / groups**0.5
        return value, np.ones(groups), 1.0, plain

    rng = np.random.default_rng(0)
    plain = np.mean([students(rng, 10)[3] >= 1.0 for _ in range(5_000)])
    assert covered(skewed, runs=5_000) > plain + 0.03  # the seed is fixed
