"""Clipping: never above the bound, never a record that was not there, no favourites."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from flwr_kld.kernel.count import clipped
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import Adjacency, Allotment, Ball, Clip

FALSE_ALARM = 1e-7


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 40), st.sampled_from([1, 2]))
def test_clipped_counts_are_within_the_bound_and_below_the_counts(counts, bound, norm):
    values = np.array(counts, dtype=np.int32)
    kept = clipped(values, Clip(bound, norm), SystemBits())
    assert kept.dtype == np.int64
    assert kept.shape == values.shape
    assert ((kept >= 0) & (kept <= values)).all()
    assert (kept**norm).sum() <= bound**norm
    if (values.astype(np.int64) ** norm).sum() <= bound**norm:
        assert (kept == values).all()


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 40))
def test_no_more_is_cut_than_has_to_be(counts, bound):
    values = np.array(counts)
    assert clipped(values, Clip(bound, 1), SystemBits()).sum() == min(values.sum(), bound)
    kept = clipped(values, Clip(bound, 2), SystemBits())
    if (kept < values).any():  # one more record of the fullest cell would be too much
        assert (kept**2).sum() + 2 * kept.max() + 1 > bound**2


@pytest.mark.parametrize("records", [30, 4000])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("runs", [10_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_every_record_is_kept_as_often(records, norm, runs):
    """Both ways of drawing an order; cells of one record each."""
    clip, bits = Clip(3, norm), SystemBits()
    cells = np.ones(records, dtype=np.int64)
    kept = sum(clipped(cells, clip, bits) for _ in range(runs))
    most = 3 if norm == 1 else 9
    assert kept.sum() == runs * most
    # without replacement, the cells' counts vary less than a multinomial by (1 - most / records)
    statistic = ((kept - kept.mean()) ** 2 / kept.mean()).sum() / (1 - (most - 1) / (records - 1))
    assert stats.chi2.sf(statistic, records - 1) > FALSE_ALARM
    assert stats.chi2.cdf(statistic, records - 1) > FALSE_ALARM


def test_kept_records_are_hypergeometric():
    counts, runs = np.array([7, 3]), 20_000
    bits = SystemBits()
    kept = np.array([clipped(counts, Clip(4), bits)[0] for _ in range(runs)])
    expected = runs * stats.hypergeom.pmf(np.arange(1, 5), 10, 7, 4)
    observed = np.bincount(kept, minlength=5)[1:]
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    assert stats.chisquare(observed[::-1], expected).pvalue < FALSE_ALARM


@pytest.mark.parametrize("norm", [1, 2])
def test_two_billion_records_take_no_more_memory_than_the_bound(norm):
    counts = np.array([2**30, 0, 2**29, 2**29 - 1], dtype=np.int32)
    kept = clipped(counts, Clip(1000, norm), SystemBits())
    assert (kept**norm).sum() <= 1000**norm
    assert kept[1] == 0
    assert kept[0] > kept[2] > 0  # fails by chance at 9 standard deviations


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_moves_are_those_of_all_pairs_of_clipped_vectors(norm, adjacency):
    clip = Clip(3, norm)
    vectors = [
        np.array(v)
        for v in itertools.product(range(4), repeat=3)
        if sum(a**norm for a in v) <= 3**norm
    ]
    other = vectors if adjacency is Adjacency.REPLACE_ONE else [np.zeros(3, dtype=int)]
    moves = [abs(u - v) for u in vectors for v in other]
    ball = Allotment.even(1).client_moves(clip, adjacency)
    assert max((m**norm).sum() for m in moves) == ball.power
    assert max(m.max() for m in moves) == ball.largest
    assert max(m.sum() for m in moves) <= ball.l1
    assert max((m > 0).sum() for m in moves) <= ball.coordinates


@pytest.mark.parametrize("counts", [np.array([1.0, 2.0]), np.array([1, -1])])
def test_only_counts_are_clipped(counts):
    with pytest.raises(ValueError, match="non-negative integer counts"):
        clipped(counts, Clip(3), SystemBits())


@pytest.mark.parametrize(("bound", "norm"), [(0, 1), (-3, 2), (2.5, 1), (2**20, 1), (4, 3)])
def test_malformed_clips_are_refused(bound, norm):
    with pytest.raises(ValueError, match=r"bound must be|norm must be"):
        Clip(bound, norm)


@pytest.mark.parametrize(("norm", "power", "largest"), [(1, 0, 0), (2, 3, 2), (3, 8, 2), (1, 2, 0)])
def test_malformed_balls_are_refused(norm, power, largest):
    with pytest.raises(ValueError, match=r"ball of moves|must be a whole number"):
        Ball(norm, power, largest)
