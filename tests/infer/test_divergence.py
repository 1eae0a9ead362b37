"""The estimand against its definition and its bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.infer.divergence import skewed_divergence

COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=30).filter(any)


def test_a_hand_computed_value():
    by_hand = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert skewed_divergence([0.5, 0.5], [0.25, 0.75], 0.0) == pytest.approx(by_hand, abs=1e-15)
    mixed = 0.5 * math.log(0.5 / 0.3) + 0.5 * math.log(0.5 / 0.7)
    assert skewed_divergence([0.5, 0.5], [0.25, 0.75], 0.2) == pytest.approx(mixed, abs=1e-15)


def test_the_reference_comes_first():
    pi, p = [0.9, 0.1], [0.5, 0.5]
    assert skewed_divergence(pi, p, 0.0) != pytest.approx(skewed_divergence(p, pi, 0.0), rel=0.1)


@given(COUNTS, st.data(), st.floats(1e-6, 0.99))
def test_definition_bounds_and_counts(pi, data, theta):
    other = data.draw(st.lists(st.integers(0, 50), min_size=len(pi), max_size=len(pi)).filter(any))
    pi, p = np.array(pi) / sum(pi), np.array(other) / sum(other)
    value = skewed_divergence(pi, other, theta)
    terms = [
        a * math.log(a / ((1 - theta) * b + theta * a)) for a, b in zip(pi, p, strict=True) if a
    ]
    assert value == pytest.approx(math.fsum(terms), abs=1e-12)
    assert -1e-12 <= value <= math.log(1 / theta) + 1e-12
    assert value == pytest.approx(skewed_divergence(pi, p, theta), abs=1e-12)
    assert value <= (1 - theta) * skewed_divergence(pi, p, 0.0) + 1e-12  # convexity


@given(COUNTS, st.sampled_from([0.0, 0.01, 0.5]))
def test_zero_where_nothing_differs(counts, theta):
    pi = np.array(counts) / sum(counts)
    assert skewed_divergence(pi, counts, theta) == pytest.approx(0, abs=1e-12)


def test_the_bound_is_reached_by_disjoint_supports():
    assert skewed_divergence([1, 0], [0, 5], 0.01) == pytest.approx(math.log(100), rel=1e-12)


def test_an_unseen_symbol_is_infinite_only_without_skew(recwarn):
    assert skewed_divergence([0.5, 0.5], [1, 0], 0.0) == math.inf
    assert skewed_divergence([0.5, 0.5], [1, 0], 0.01) < math.log(100)
    assert skewed_divergence([1, 0], [0.5, 0.5], 0.0) == pytest.approx(math.log(2))
    assert not recwarn.list


@pytest.mark.parametrize("theta", [-0.1, 1, 2, math.nan])
def test_theta_out_of_range(theta):
    with pytest.raises(ValueError, match="theta"):
        skewed_divergence([0.5, 0.5], [1, 1], theta)


def test_a_distribution_without_mass():
    with pytest.raises(ValueError, match="mass"):
        skewed_divergence([0.5, 0.5], [0, 0], 0.01)
