"""The paper's clipping: cells, ranges, and the bound N' <= K M that does not hold."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predictors.candidates import COUNTER_EXAMPLE, random_laws
from scipy import stats

from flwr_kld.kernel.law import SystemBits
from flwr_kld.predictors.laws import Laws
from flwr_kld.simulations.studies.papers.learners import Clipping


def test_the_counter_example_has_more_cells_than_the_paper_allows():
    clipping = Clipping(Laws(COUNTER_EXAMPLE), 1000)
    assert clipping.cells.tolist() == [1, 3, 3, 1, 3, 3]
    assert clipping.total == 14 > 2 * 6
    assert clipping.ranges.max() > math.log(2 * 1000)


@given(st.integers(2, 6), st.integers(2, 40), st.integers(0, 1000), st.integers(2, 10**6))
def test_ranges_follow_the_formula_and_stay_below_the_corrected_bound(k, m, seed, horizon):
    clipping = Clipping(random_laws(k, m, seed), horizon)
    assert m <= clipping.total < (k + 1) * m
    ratio = clipping.laws.probabilities / clipping.cells
    spread = (horizon - 1) * clipping.total
    formula = np.log1p(spread * ratio.max(axis=1)) - np.log1p(spread * ratio.min(axis=1))
    np.testing.assert_allclose(clipping.ranges, formula, rtol=1e-9, atol=1e-9)
    assert clipping.ranges.max() < clipping.widest
    assert clipping.scores.max() <= 1e-9  # no cell has more than 1 / M


def test_scores_are_those_of_the_random_map():
    """Line 5 by hand: p̄_j = h ∘ f_j over the cells, in exact fractions."""
    table = [[Fraction(n, 12) for n in row] for row in ([2, 5, 5, 0, 0, 0], [0, 0, 0, 2, 5, 5])]
    clipping = Clipping(Laws(COUNTER_EXAMPLE), 100)
    cells = [math.ceil(6 * max(column)) for column in zip(*table, strict=True)]
    total = sum(cells)
    for j, law in enumerate(table):
        each = [
            Fraction(99, 100) * p / c + Fraction(1, 100 * total)
            for p, c in zip(law, cells, strict=True)
        ]
        assert sum(c * p for c, p in zip(cells, each, strict=True)) == 1
        np.testing.assert_allclose(clipping.scores[j], [math.log(6 * p) for p in each])
    weights = np.array([0.3, 0.7])
    gathered = weights @ np.exp(clipping.scores) / 6 * cells
    np.testing.assert_allclose(clipping.predict(weights), gathered)


def test_labels_that_no_hypothesis_knows_have_a_cell_all_the_same():
    clipping = Clipping(Laws([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]), 10)
    assert clipping.cells[2] == 1
    assert np.isfinite(clipping.scores).all()


def test_products_next_to_an_integer_are_that_integer():
    third = Laws([[0.1] * 10, [0.3, 0.3, 0.4, 0, 0, 0, 0, 0, 0, 0]])
    assert Clipping(third, 10).cells.tolist() == [3, 3, 4] + [1] * 7


@pytest.mark.rate(1e-5)
def test_replaced_labels_follow_the_cells():
    draws = 200_000
    clipping = Clipping(Laws(COUNTER_EXAMPLE), 2)
    mapped = clipping.resampling.apply(np.full(draws, 4), SystemBits())
    seen = Counter(mapped.tolist())
    law = np.where(np.arange(6) == 4, 0.5, 0) + clipping.cells / 28
    assert stats.chisquare([seen[y] for y in range(6)], draws * law).pvalue > 1e-6
    off = 0.5 * law + 0.5 / 6  # half-way to uniform labels instead of uniform cells
    assert stats.chisquare([seen[y] for y in range(6)], draws * off).pvalue < 1e-6


def test_no_horizon_below_two():
    with pytest.raises(ValueError, match="horizon"):
        Clipping(Laws(COUNTER_EXAMPLE), 1)
