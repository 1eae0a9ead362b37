"""The share of records outside the reference: limits that hold, and a level of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.outside import outside_limits
from flwr_kld.inference.witness import GROUPS, Witness

P = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
RECORDS = 10_000


@pytest.fixture(scope="module")
def check(plan_for, publish):
    """Both halves of a check of a population whose last symbol, outside, has share q."""
    plan = plan_for(P)

    def run(q, seed, epsilon=1.0, clustering=0.0):
        rng = np.random.default_rng(seed)
        law = np.bincount(plan.cell_of, np.append(P[:-1] * (1 - q), q), plan.cells)
        witness = Witness.from_counts(publish(plan, rng.multinomial(RECORDS, law), epsilon, seed))
        levels = np.bincount(witness.level_of, law)
        laws = np.tile(levels, (GROUPS, 1))
        if clustering:
            laws = rng.dirichlet(np.maximum(levels, 1e-9) / clustering, GROUPS)
        counts = np.stack([rng.multinomial(RECORDS // GROUPS, x) for x in laws], axis=1)
        return witness, publish(witness.query_plan(), counts, epsilon, seed + 1)

    return run


def test_the_outside_is_a_level_of_its_own_and_the_last(check):
    for q in (0.0, 0.01, 0.9):
        witness, _ = check(q, 0)
        assert witness.outside.tolist() == [False] * (len(witness.values) - 1) + [True]
        assert (witness.level_of[witness.plan.outside] == len(witness.values) - 1).all()
        assert witness.mass[-1] == 0


def test_without_anything_outside_there_is_nothing_to_limit(plan_for, publish):
    plan = plan_for([0.6, 0.4])
    witness = Witness.from_counts(publish(plan, [600, 400]))
    assert not witness.outside.any()
    counts = np.full((len(witness.values), GROUPS), 50)
    assert outside_limits(witness, publish(witness.query_plan(), counts)) is None


@pytest.mark.parametrize(
    ("q", "clustering"),
    [(0.0, 0.0), (0.002, 0.0), (0.1, 0.0), (0.9, 0.0), (0.002, 5e-4), (0.1, 0.02), (0.9, 0.02)],
)
def test_the_limits_hold(check, q, clustering):
    """At 95 %, 200 runs: as many misses as 5 % make with a probability of 1e-6 are a finding."""
    limits = [outside_limits(*check(q, seed, 1.0, clustering)) for seed in range(0, 400, 2)]
    for missed in (
        [one.lower > q for one in limits],
        [one.upper < q for one in limits],
    ):
        assert sum(missed) <= stats.binom.isf(1e-6, 200, 0.05)
    assert all(0 <= one.lower <= one.upper <= 1 for one in limits)
    if q and not clustering:
        assert np.mean([one.lower for one in limits]) > 0.5 * q - 0.002
        assert np.mean([one.upper for one in limits]) < 1.5 * q + 0.002


def test_groups_of_unequal_sizes_that_agree_leave_no_doubt(check, publish):
    """Hashed groups of about twenty clients: their sizes are no evidence about shares."""
    witness, _ = check(0.3, 0)
    size = np.array([1400, 4000, 900, 2500, 1500, 3000, 1700, 1200, 1600, 3500])
    counts = np.zeros((len(witness.values), GROUPS), dtype=np.int64)
    counts[-1] = size // 4
    counts[0] = size - counts[-1]
    limits = outside_limits(witness, publish(witness.query_plan(), counts), level=1 - 2.7e-5)
    assert (limits.lower, limits.upper) == pytest.approx((0.25, 0.25), abs=1e-6)


def test_one_group_of_huge_size_decides_nothing(check, publish):
    """As a client would make it that claims 2^40 records."""
    witness, _ = check(0.0, 0)
    counts = np.zeros((len(witness.values), GROUPS), dtype=np.int64)
    counts[0], counts[-1, 4] = 1000, 1 << 40
    limits = outside_limits(witness, publish(witness.query_plan(), counts))
    assert limits.lower == 0.0
    assert limits.upper > 0.1


def test_groups_of_few_records_are_noise_and_say_nothing(check, publish):
    """Of 4 records each at ε = .2: a ratio of noise to noise would often be a large share."""
    witness, _ = check(0.0, 0)
    counts = np.zeros((len(witness.values), GROUPS), dtype=np.int64)
    counts[0] = 4
    for seed in range(20):
        limits = outside_limits(witness, publish(witness.query_plan(), counts, 0.2, seed))
        assert (limits.lower, limits.upper) == (0.0, 1.0)


def test_an_empty_group_is_no_obstacle_and_no_records_are(check, publish):
    witness, _ = check(0.3, 0)
    counts = np.full((len(witness.values), GROUPS), 50)
    counts[:, 3] = -1
    limits = outside_limits(witness, publish(witness.query_plan(), counts))
    assert limits.upper - limits.lower < 0.1
    nothing = outside_limits(witness, publish(witness.query_plan(), 0 * counts - 1))
    assert (nothing.lower, nothing.upper) == (0.0, 1.0)


def test_silence_is_exact(check):
    witness, counts = check(0.0, 0, np.inf)
    limits = outside_limits(witness, counts, level=0.9999)
    assert (limits.lower, limits.point) == (0.0, 0.0)
    assert limits.upper < 1e-8


def test_a_higher_level_says_less(check):
    halves = check(0.1, 0)
    low, high = (outside_limits(*halves, level=level) for level in (0.9, 0.999))
    assert high.lower < low.lower < low.point == high.point < low.upper < high.upper


@given(st.lists(st.integers(-50, 10**6), min_size=2 * GROUPS, max_size=2 * GROUPS))
@settings(max_examples=60, deadline=None)
def test_any_counts_give_limits(plan_for, publish, values):
    plan = plan_for([1.0, 0.0])
    witness = Witness.from_counts(publish(plan, [900, 100]))
    limits = outside_limits(witness, publish(witness.query_plan(), np.reshape(values, (2, GROUPS))))
    assert 0 <= limits.lower <= limits.upper <= 1
    assert 0 <= limits.point <= 1


def test_what_lies_outside_raises_the_bound_of_the_divergence(check):
    """A third outside: KL >= -ln(1 - q) = 0.405, of which the bound shows most."""
    witness, counts = check(1 / 3, 0)
    assert 0.3 < lower_confidence_bound(witness, counts, theta=0.01).lower < 0.405


def test_a_level_for_nothing_costs_little(check, plan_for, publish):
    """With nothing outside, its value is the others' mean: the bound's error hardly grows."""
    witness, counts = check(0.0, 4, 0.3)
    f = witness.f
    assert f[:-1].min() <= f[-1] <= f[:-1].max()
    bound = lower_confidence_bound(witness, counts, theta=0.01)
    same = plan_for(P[:-1])
    rng = np.random.default_rng(4)
    plain = Witness.from_counts(publish(same, rng.multinomial(RECORDS, same.mass), 0.3, 4))
    shares = np.bincount(plain.level_of, same.mass) / GROUPS
    law = np.repeat(shares, GROUPS)
    halves = publish(plain.query_plan(), rng.multinomial(RECORDS, law), 0.3, 5)
    without = lower_confidence_bound(plain, halves, theta=0.01)
    assert bound.lower > without.lower - 0.01
