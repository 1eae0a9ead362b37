"""Draws follow the integer laws exactly."""

import numpy as np
import pytest
from integral.laws import box_weights, finite_base
from scipy import stats
from scripted import ScriptedBits

from flwr_kld.integral import GaussianCells, Mollifier, Sampler
from flwr_kld.integral.draws import BoxLaw, IntegerBox
from flwr_kld.kernel.law import TOTAL, Cumulative

FALSE_ALARM = 1e-7
"""Of one comparison; a test has up to four."""


def symbol_of(number: int, weights) -> int:
    return int(Cumulative(weights).draw(1, ScriptedBits.of(number))[0])


@pytest.mark.parametrize(
    "weights",
    [
        (TOTAL // 2, TOTAL // 2),
        (1, TOTAL - 1),
        (TOTAL - 1, 1),
        (1, 2, 3, TOTAL - 6),
        (1 << 64, TOTAL - (1 << 64) - 5, 3, 2),
        (12345678901234567890123, TOTAL - 12345678901234567890123 - 7, 7),
    ],
)
def test_each_symbol_owns_exactly_its_weight_in_numbers(weights):
    start = 0
    for symbol, weight in enumerate(weights):
        assert symbol_of(start, weights) == symbol
        assert symbol_of(start + weight - 1, weights) == symbol
        start += weight


@pytest.mark.parametrize("weights", [[0, TOTAL], [TOTAL, 5], [-1, TOTAL + 1]])
def test_weights_that_are_no_law_are_refused(weights, monkeypatch):
    monkeypatch.setattr(IntegerBox, "nearest", lambda *_: weights)
    with pytest.raises(ValueError, match="weights"):
        BoxLaw(finite_base([1, 1]), Mollifier.symmetric(1.0), np.full(2, 0.5))


def fits(draws, law) -> bool:
    observed = np.bincount(draws, minlength=len(law))
    return stats.chisquare(observed, np.array(law, float) * len(draws)).pvalue > FALSE_ALARM


def test_box_draws_follow_the_integer_law_and_five_percent_is_noticed():
    base, mollifier = finite_base(np.ones(20)), Mollifier.symmetric(1.0)
    law = BoxLaw(base, mollifier, np.linspace(0.0, 0.1, 20))
    exact = np.array([w / TOTAL for w in box_weights(law)])
    draws = Sampler(law, 400_000).draw(400_000)
    assert fits(draws, exact)
    wrong = exact * np.where(np.arange(20) % 2, 1.05, 0.95)
    assert not fits(draws, wrong / wrong.sum())


@pytest.mark.rate(1e-6)
def test_cells_have_equal_mass_and_points_lie_in_their_cell():
    grid = GaussianCells(2, 5)
    points = np.random.default_rng(0).standard_normal((200_000, 2))
    cells = grid.encode(points)
    assert fits(cells, grid.base.mass)
    inside = grid.points(np.repeat(np.arange(25), 40))
    assert (grid.encode(inside) == np.repeat(np.arange(25), 40)).all()
    again = grid.points(cells)
    assert min(stats.kstest(axis, "norm").pvalue for axis in again.T) > FALSE_ALARM
    assert (grid.encode(grid.base.features) == np.arange(25)).all()


class AllOfThem:
    """Bits that are all 0, or all 1."""

    private = False

    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, np.uint64)


@pytest.mark.parametrize("word", [0, 2**64 - 1])
@pytest.mark.parametrize("per_axis", [2, 3, 4, 7, 1000, 4096, 2**20 + 7])
def test_the_outermost_points_of_a_cell_lie_in_it_too(per_axis, word):
    """They were infinite in the last cell, and on the edge of the next one in others."""
    grid = GaussianCells(1, per_axis)
    cells = np.arange(per_axis)
    points = grid.points(cells, AllOfThem(word))
    np.testing.assert_array_equal(grid.encode(points), cells)


@pytest.mark.parametrize("sizes", [(0, 2), (1, 1), (3, 1000)])
def test_grids_that_are_too_small_or_large_are_refused(sizes):
    with pytest.raises(ValueError, match=r"whole|most"):
        GaussianCells(*sizes)
