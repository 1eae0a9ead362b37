from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flwr_kld.inference.levels import best_levels


def kept(p, m, level_of):
    """Divergence that is left over the levels."""
    a, b = np.bincount(level_of, p), np.bincount(level_of, m)
    return float((a[a > 0] * np.log(a[a > 0] / b[a > 0])).sum())


@pytest.mark.parametrize("seed", range(5))
def test_no_other_intervals_keep_more(seed):
    rng = np.random.default_rng(seed)
    p, m = rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(9))
    order = np.argsort(p / m)
    for levels, found in enumerate(best_levels(p, m, 6), start=1):
        best = -np.inf
        for cuts in combinations(range(1, 9), levels - 1):
            level_of = np.empty(9, dtype=int)
            for number, (start, end) in enumerate(pairwise((0, *cuts, 9))):
                level_of[order[start:end]] = number
            best = max(best, kept(p, m, level_of))
        assert len(np.unique(found)) == levels
        assert kept(p, m, found) == pytest.approx(best, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), size=st.integers(1, 40), most=st.integers(1, 12))
def test_levels_are_intervals_of_the_ratio_and_none_is_empty(data, size, most):
    masses = st.lists(st.sampled_from([0.0, 1e-9, 0.1, 1.0, 7.0]), min_size=size, max_size=size)
    p, m = np.array(data.draw(masses)), np.array(data.draw(masses))
    p[0], m[0] = 1.0, 1.0
    m = np.maximum(m, 1e-6 * (p > 0))  # θ Π of the mixture
    found = best_levels(p, m, most)
    assert 1 <= len(found) <= most
    for levels, level_of in enumerate(found, start=1):
        assert np.array_equal(np.unique(level_of), np.arange(levels))
        positive = p > 0
        ratio, level = p[positive] / m[positive], level_of[positive]
        ordered = np.argsort(ratio, kind="stable")
        assert (np.diff(level[ordered]) >= 0).all()
        assert level_of[~positive].max(initial=0) <= level.min()
    gains = [kept(p, m, level_of) for level_of in found]
    assert (np.diff(gains) >= -1e-12).all()


def test_few_levels_keep_most_of_a_drift_over_many_cells(zipf, spread):
    p = zipf(5000)
    m = spread(p, 0.7)
    whole = float((p * np.log(p / m)).sum())
    found = best_levels(p, m, 10)
    assert kept(p, m, found[3]) > 0.85 * whole
    assert kept(p, m, found[9]) > 0.97 * whole
