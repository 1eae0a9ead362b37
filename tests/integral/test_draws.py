"""Draws follow the integer laws exactly."""

import numpy as np
import pytest
from integral.laws import box_weights, finite_base, rejection_law
from scipy import stats
from scripted import ScriptedBits

from flwr_kld.integral import GaussianBase, Mollifier, Sampler
from flwr_kld.integral.base import Categorical, GaussianCells, integer_weights
from flwr_kld.integral.draws import BoxLaw, RejectionLaw
from flwr_kld.kernel.law import TOTAL, SeededBits, SystemBits

FALSE_ALARM = 1e-7
"""Of one comparison; a test has up to four."""


def symbol_of(number: int, weights) -> int:
    return int(Categorical(weights).draw(1, ScriptedBits.of(number))[0])


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


@pytest.mark.parametrize("weights", [(TOTAL,), (0, TOTAL), (TOTAL, 5), (-1, TOTAL + 1)])
def test_weights_that_are_no_law_are_refused(weights):
    with pytest.raises(ValueError, match="positive weights"):
        Categorical(weights)


def test_base_weights_are_a_law_even_where_masses_vanish():
    weights = integer_weights(np.array([1e-60, 0.25, 0.75]))
    assert weights[0] == 1
    assert sum(weights) == TOTAL
    Categorical(weights)


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


@pytest.mark.parametrize("tries", [1, 3, None])
def test_rejection_draws_follow_the_exact_law_with_its_fallback(tries):
    base = finite_base([0.4, 0.3, 0.2, 0.1])
    f = np.array([-0.5, 0.5, 0.1, -0.2])
    law = RejectionLaw(base, lambda symbols: f[symbols], 2.0, tries=tries)
    draws = Sampler(law, 300_000).draw(300_000)
    assert fits(draws, rejection_law(law))
    assert not fits(draws, base.mass)
    unclipped = base.mass * np.exp(f)
    ideal = unclipped / unclipped.sum()
    assert fits(draws, ideal) == (tries is None)  # misses of 1e-4 do not show; those of 3 tries do


@pytest.mark.parametrize(("below", "drawn"), [(1, 0), (0, 1)])
def test_a_try_is_accepted_for_exactly_its_share_of_32_bit_words(below, drawn):
    """One try on the point 0, then the fallback to the point 1, from scripted words."""
    law = RejectionLaw(finite_base([0.5, 0.5]), lambda s: np.full(len(s), 0.1), 2.0, tries=1)
    (chance,) = law._chances(np.array([0])).tolist()
    word = (chance - below) << 32 | 0xFFFFFFFF  # the low half does not matter
    low, high = 0, 1 << 63
    scripted = ScriptedBits(low, high + 1, word)
    assert Sampler(law, 1, bits=scripted).draw().tolist() == [drawn]


def test_all_tries_are_looked_at_whatever_is_accepted():
    """Time does not depend on the data: F sees the same number of points in every case."""
    seen = []
    for f in (1e9, -1e9):
        law = RejectionLaw(
            GaussianBase(2), lambda x, f=f: (seen.append(len(x)), np.full(len(x), f))[1], 1.0
        )
        Sampler(law, 50, bits=SeededBits(1)).draw(50)
    assert seen == [50 * law.tries] * 2


def test_rejection_on_the_plane_has_the_right_density():
    """F = ε/4 on the right half: its share is known in closed form; 2 % of it is noticed."""
    epsilon, size = 4.0, 100_000
    law = RejectionLaw(GaussianBase(2), lambda x: np.where(x[:, 0] > 0, 9.0, -9.0), epsilon)
    right = int((Sampler(law, size).draw(size)[:, 0] > 0).sum())
    share = 1 / (1 + np.exp(-epsilon / 2))
    assert stats.binomtest(right, size, share).pvalue > FALSE_ALARM
    assert stats.binomtest(right, size, 0.98 * share).pvalue < FALSE_ALARM


def test_gaussian_base_is_standard_normal_and_its_axes_independent():
    points = GaussianBase(3).draw(100_000, SystemBits())
    assert points.shape == (100_000, 3)
    assert min(stats.kstest(axis, "norm").pvalue for axis in points.T) > FALSE_ALARM
    assert np.abs(np.corrcoef(points.T)[np.triu_indices(3, 1)]).max() < 5.5 / 100_000**0.5
    assert stats.kstest(points[:, 0] * 1.1, "norm").pvalue < FALSE_ALARM


def test_long_draws_come_in_chunks_of_the_same_law():
    law = RejectionLaw(finite_base([1, 1]), lambda s: np.zeros(len(s)), 0.5, tries=1000)
    assert len(Sampler(law, 700).draw(700)) == 700


@pytest.mark.parametrize("tries", [0, -1, 1 << 17])
def test_a_number_of_tries_out_of_range_is_refused(tries):
    with pytest.raises(ValueError, match="tries"):
        RejectionLaw(finite_base([1, 1]), lambda s: np.zeros(len(s)), 1.0, tries=tries)


def test_cells_have_equal_mass_and_points_lie_in_their_cell():
    grid = GaussianCells(2, 5)
    points = GaussianBase(2).draw(200_000, SystemBits())
    cells = grid.encode(points)
    assert fits(cells, grid.base.mass)
    inside = grid.points(np.repeat(np.arange(25), 40))
    assert (grid.encode(inside) == np.repeat(np.arange(25), 40)).all()
    again = grid.points(cells)
    assert min(stats.kstest(axis, "norm").pvalue for axis in again.T) > FALSE_ALARM
    assert (grid.encode(grid.base.features) == np.arange(25)).all()


@pytest.mark.parametrize("sizes", [(0, 2), (1, 1), (3, 1000)])
def test_grids_that_are_too_small_or_large_are_refused(sizes):
    with pytest.raises(ValueError, match=r"must be a whole number|a grid has at most"):
        GaussianCells(*sizes)
