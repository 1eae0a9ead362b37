"""The circle, and how many neighbours it takes."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from flwr_kld.common.errors import ThresholdTooLow, TooFewNeighbours
from flwr_kld.guard.secure_sum_policy import FEWEST_NEIGHBOURS, Collusion
from flwr_kld.secure_sums.graph import (
    Shape,
    Tolerance,
    abort_probability,
    choose_shape,
    leak_probability,
    neighbour_table,
    neighbours_of,
    require_secure,
    ring_order,
    tail,
)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 4), (6, 2), (9, 4), (30, 8)])
def test_neighbours_are_mutual_and_slots_mirror(n, k):
    order = ring_order(bytes(range(32)), n)
    table = neighbour_table(order, k)
    assert sorted(order) == list(range(n))
    for i in range(n):
        assert np.array_equal(table[i], neighbours_of(order, i, k))
        assert i not in table[i]
        assert len(set(table[i])) == k
        for slot, j in enumerate(table[i]):
            assert table[j, k - 1 - slot] == i


def test_the_order_is_a_fair_shuffle():
    seeds = [i.to_bytes(32, "little") for i in range(24_000)]
    seen: dict[tuple[int, ...], int] = {}
    for seed in seeds:
        order = tuple(ring_order(seed, 4).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6


@pytest.mark.parametrize(("population", "marked", "drawn"), [(20, 5, 7), (50, 50, 3), (30, 0, 4)])
def test_tails_are_exact(population, marked, drawn):
    for least in range(drawn + 2):
        ways = sum(
            comb(marked, x) * comb(population - marked, drawn - x) for x in range(least, drawn + 1)
        )
        assert tail(population, marked, drawn, least) == Fraction(ways, comb(population, drawn))


@pytest.mark.parametrize("collusion", list(Collusion))
@pytest.mark.parametrize("n", [40, 100, 1000, 10_000])
def test_chosen_shapes_meet_their_bounds_and_no_smaller_ring_does(n, collusion):
    tolerance = Tolerance(corrupted=0.05, dropout=0.05, collusion=collusion)
    shape = choose_shape(n, tolerance)
    assert leak_probability(n, shape, tolerance) <= Fraction(1, 2**40)
    assert abort_probability(n, shape, tolerance) <= Fraction(1, 2**30)
    require_secure(n, shape, tolerance)
    if FEWEST_NEIGHBOURS < shape.neighbours < n - 1:
        k = shape.neighbours - 2
        for t in range(Shape.fewest_shares(k, n), k + 2):
            smaller = Shape(k, t)
            leaks = leak_probability(n, smaller, tolerance) > Fraction(1, 2**40)
            assert leaks or abort_probability(n, smaller, tolerance) > Fraction(1, 2**30)


def test_neighbours_grow_like_a_logarithm():
    sizes = [choose_shape(n, Tolerance()).neighbours for n in (1000, 10_000, 100_000)]
    assert sizes[0] == 62
    assert sizes[2] - sizes[1] <= 12


@pytest.mark.parametrize("n", [2, 3, 5, 10, 25])
def test_small_cohorts_are_complete_and_need_a_majority(n):
    shape = choose_shape(n, Tolerance())
    assert shape.neighbours == n - 1
    assert 2 * shape.threshold > n


def test_small_cohorts_withstand_liars():
    tolerance = Tolerance(corrupted=0.2, dropout=0.2, collusion=Collusion.LYING)
    shape = choose_shape(20, tolerance)
    assert 2 * shape.threshold > 20 + 4
    require_secure(20, shape, tolerance)


def test_what_cannot_be_withstood_is_said():
    with pytest.raises(ValueError, match="10"):
        choose_shape(10, Tolerance(corrupted=0.3, dropout=0.4, collusion=Collusion.LYING))


def test_weak_graphs_are_refused():
    with pytest.raises(TooFewNeighbours):
        require_secure(1000, Shape(8, 7), Tolerance(corrupted=0.1))
    with pytest.raises(ThresholdTooLow):
        require_secure(1000, Shape(30, 21), Tolerance())
    with pytest.raises(TooFewNeighbours):
        require_secure(1000, Shape(30, 22), Tolerance(collusion=Collusion.LYING))
    with pytest.raises(TooFewNeighbours, match="even"):
        require_secure(1000, Shape(31, 17), Tolerance())
