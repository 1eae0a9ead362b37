"""Intervals for the shares of all cells at once, and of groups: they miss no more than they may."""

import numpy as np
import pytest
from infer.figures.columns import GAUSSIAN, LAPLACE, PORTS, plan_of, release, releases
from numbered import Numbered
from scipy import stats

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.fraction_interval import (
    _quantiles_of_sums,
    count_interval,
    fraction_intervals,
    fraction_variance,
    group_intervals,
    noise_of,
    records_between,
    sum_intervals,
)
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import TOTAL, NoiseTable
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.trust.calibration import calibrated_laplace
from flwr_kld.trust.noise_laws import discrete_gaussian

P = np.array([0.4, 0.3, 0.2, 0.1])
NOISE = calibrated_laplace(Guarantee(1.0)).table


@pytest.mark.parametrize("design_effect", [1, 5])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.97])
def test_an_interval_misses_no_more_often_than_it_may(share, design_effect):
    """Exact: summed over every count of a cohort and every value of the noise.

    Records that come in identical bunches of `design_effect` are the clusters allowed for.
    """
    bunches, level = 40, 0.9
    plan = plan_of(PORTS, P)
    event = calibrated_laplace(Guarantee(0.7))
    missed = 0.0
    for h, chance in enumerate(stats.binom.pmf(np.arange(bunches + 1), bunches, share)):
        if chance < 1e-9:
            continue
        for block in np.array_split(event.table.support, len(event.table.support) // 4 + 1):
            values = np.zeros(plan.cells, dtype=np.int64)
            values[: len(block)] = h * design_effect + block
            counts = NoisyCounts(values, float(bunches * design_effect), event, plan, False)
            low, high = fraction_intervals(
                counts, level=level, effects=DesignEffects(design_effect)
            )
            out = (share < low) | (share > high)
            law = event.table.probabilities[block + event.table.reach]
            missed += chance * float(law @ out[: len(block)])
    assert missed <= (1 - level) / plan.cells


def family_errors(protects, runs, level, records=800, each=1, most=None):
    """How many of `runs` unmoved cohorts show any cell beyond chance.

    A cohort is `records // each` draws that count `each` times.
    """
    p = np.arange(1, 61) ** -1.0
    plan = plan_of(Numbered(60), p / p.sum(), cells=60)
    rng = np.random.default_rng(5)
    wrong = 0
    for run in range(runs):
        h = each * rng.multinomial(records // each, plan.reference.probabilities)
        counts = release(plan, h, NOISE, seed=run, protects=protects)
        low, high = fraction_intervals(counts, level=level, effects=DesignEffects(most or each))
        wrong += bool(((plan.mass < low) | (plan.mass > high)).any())
    return wrong


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
@pytest.mark.parametrize("each", [1, 8])
def test_chance_is_rarely_taken_for_movement(protects, each):
    """At level 0.8; a rate of 0.2 gives more than the bound with probability under 1e-6."""
    runs = 200
    assert family_errors(protects, runs, 0.8, each=each) <= stats.binom.isf(1e-6, runs, 0.2)


@pytest.mark.parametrize(("count", "design_effect"), [(0, 1), (3, 1), (40, 4), (96, 4), (100, 1)])
def test_without_noise_the_intervals_are_clopper_and_pearsons(count, design_effect):
    plan = plan_of(PORTS, P)
    counts = release(plan, [count, 100 - count, 0, 0, 0, 0])
    low, high = fraction_intervals(counts, level=0.9, effects=DesignEffects(design_effect))
    exact = stats.binomtest(count // design_effect, 100 // design_effect).proportion_ci(
        1 - 0.1 / plan.cells / 2
    )
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.rate(1e-4)
def test_clusters_that_nobody_allowed_for_are_taken_for_movement():
    assert family_errors("record", 100, 0.8, each=20, most=1) > 60


@pytest.mark.parametrize("table", [NOISE, LAPLACE, discrete_gaussian(0.3), discrete_gaussian(9)])
def test_the_noise_of_a_sum_is_known(table):
    """Of a few numbers, also beside many, as all are computed together."""
    sizes, errors = (1, 2, 5, 60), (0.3, 0.05, 1e-4)
    law = np.ones(1)
    for m in range(1, max(sizes) + 1):
        law = np.convolve(law, table.probabilities)
        beyond = np.append(np.cumsum(law[::-1])[::-1], 0)  # P(sum >= index - m W)
        for error in errors if m in sizes else ():
            q = m * table.reach + _quantiles_of_sums(table, sizes, error)[sizes.index(m)]
            assert beyond[q + 1] <= error * (1 + 1e-9)
            assert q == m * table.reach or beyond[q] > error * (1 - 1e-9)


@pytest.mark.parametrize("error", [0.05, 1e-3, 1e-6])
def test_limits_of_a_hidden_number_of_records_err_no_more_than_they_may(error):
    """Exact: the noise of a few cells has heavier tails than a normal law."""
    plan, records = plan_of(PORTS, P), 4_000
    law = np.ones(1)
    for _ in range(plan.cells):
        law = np.convolve(law, LAPLACE.probabilities)
    counts = release(plan, [records, 0, 0, 0, 0, 0], LAPLACE, protects=WholeClients(1))
    fewest, most, left = records_between(counts, error)
    errs = np.arange(len(law)) - len(law) // 2
    missed = (errs > counts.records - fewest) | (errs < counts.records - most)
    assert law[missed].sum() + left <= error
    assert left == error / 2


def test_without_noise_sums_have_none():
    assert not _quantiles_of_sums(NoiseTable((TOTAL,)), (0, 1, 7), 0.05).any()


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
def test_the_interval_of_a_group_holds_its_share(protects):
    """At 90 %; more misses than the bound have a probability under 1e-6."""
    law = np.array([0.3, 0.3, 0.2, 0.1, 0.08, 0.02])
    plan, runs = plan_of(PORTS, law), 200
    groups = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]], dtype=bool)
    missed = np.zeros(len(groups))
    for counts in releases(plan, law, 600, runs, LAPLACE, protects=protects):
        low, high = group_intervals(counts, groups, level=0.9, effects=DesignEffects(1))
        missed += (groups @ law < low) | (groups @ law > high)
    assert (missed <= stats.binom.isf(1e-6, runs, 0.1)).all()


@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
@pytest.mark.parametrize("design_effect", [0, 1])
@pytest.mark.parametrize("far", [-1, 1])
def test_noise_beyond_all_that_can_be_leaves_a_number_open(protects, design_effect, far):
    """Noise says far fewer than no records in two cells, or more than all: it is still noise."""
    plan = plan_of(PORTS, P)
    event = calibrated_laplace(Guarantee(0.1, protects=protects))
    two = np.arange(plan.cells) < 2
    counts = NoisyCounts(np.where(two, 50 + 999 * far, 50), 50.0 * plan.cells, event, plan, False)
    value, _, low, high = count_interval(counts, two, level=0.95)
    assert low <= value <= high
    assert high - low > 10
    for low, high in (
        fraction_intervals(counts, level=0.95, effects=DesignEffects(design_effect)),
        group_intervals(counts, two[None], level=0.95, effects=DesignEffects(design_effect)),
    ):
        assert high[0] - low[0] > 0.05


def covariance(counts, weights, law, design_effect):
    """Of fractions, in which N varies with the noise where it is the sum of noisy counts."""
    ratio = weights - (weights @ law)[:, None]
    sampled = (weights * law) @ weights.T - np.outer(weights @ law, weights @ law)
    noise = noise_of(counts, ratio)
    return design_effect / counts.records * sampled + noise @ noise.T


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
def test_covariances_are_those_of_the_counts(protects):
    """Seeded: 3,000 runs against the formula."""
    law = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    plan, weights = plan_of(PORTS, law), np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 3]])
    runs = list(releases(plan, law, 2000, 3000, GAUSSIAN, protects=protects))
    seen = np.array([c.values / c.records for c in runs])
    if protects == "record":  # as those who know N take its noise off
        seen -= (seen.sum(axis=1, keepdims=True) - 1) / plan.cells
    got = np.cov(weights @ seen.T)
    expected = np.mean(
        [covariance(one, weights, law, design_effect=1) for one in runs[:100]], axis=0
    )
    assert np.diag(got) == pytest.approx(np.diag(expected), rel=0.12)
    assert abs(got[0, 1] - expected[0, 1]) < 0.1 * np.sqrt(np.prod(np.diag(expected)))
    if protects != "record":
        single = covariance(runs[0], np.eye(plan.cells), law, design_effect=3)
        assert np.diag(single) == pytest.approx(fraction_variance(runs[0], law, design_effect=3))


@pytest.mark.parametrize("noised", [-9, 0, 9])
def test_a_label_that_vanished_has_no_more_than_noise_hides(noised):
    """Of clients of 500 records each, whatever sign the noise has."""
    plan = plan_of(PORTS, P)
    counts = release(plan, [12000, 8000, 0, 0, 0, 0], NOISE)
    values = counts.values.copy()
    values[2] = noised
    counts = NoisyCounts(values, 20_000.0, counts.event, plan, False)
    _, high = fraction_intervals(counts, level=0.95, effects=DesignEffects(1.02, 500.0))
    assert high[2] < 0.01


def test_ends_are_left_out_only_where_noise_may_hide_what_is_usual():
    plan = plan_of(PORTS, P)
    values = np.round(1000 * plan.mass).astype(np.int64)
    counts = NoisyCounts(
        values, float(values.sum()), calibrated_laplace(Guarantee(0.7)), plan, True
    )
    sizes = np.arange(1, plan.cells, dtype=np.float64)
    held = np.cumsum(values)[:-1].astype(np.float64)
    ends = np.array(sum_intervals(counts, held, sizes, level=0.95))
    for far in (-0.3, -0.1, 0.0, 0.1, 0.3):
        usual = np.clip(held / values.sum() + far, 0, 1)
        found = np.array(sum_intervals(counts, held, sizes, level=0.95, usual=usual))
        same = (found == ends).all(axis=0)
        assert (same | (found == [[0.0], [1.0]]).all(axis=0)).all()
        assert same[(usual < ends[0]) | (usual > ends[1])].all()
        assert far or not same.any()
