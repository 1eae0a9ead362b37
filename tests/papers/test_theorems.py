"""The theorems' bounds: finite where they should be, above what they bound, of the stated order."""

import numpy as np
import pytest

from flwr_kld.papers.estimators import variance_bound
from flwr_kld.papers.learners import kl_risk

HALF = np.array([0.5, 0.5])


def test_the_variance_bound_is_infinite_where_a_symbol_is_unseen():
    assert variance_bound(HALF, np.array([1.0, 0.0]), 0.0) == np.inf
    assert variance_bound(HALF, HALF, 1.0) == 0


@pytest.mark.parametrize("lam", [0.0, 0.1, 1.0])
def test_the_variance_bound_is_above_the_variance(lam):
    for seed in range(50):
        pi, p = np.random.default_rng(seed).dirichlet(np.full(6, 2.0), 2)
        score = lam * (p / pi - 1) - np.log(p / pi)
        assert pi @ (score - pi @ score) ** 2 < variance_bound(pi, p, lam)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_risk_of_both_algorithms_is_of_the_order_of_a_root(delta):
    """But for three logarithms: four times the reports double the bound, and a half more."""
    one, four = (kl_risk(10, 1.0, horizon, delta=delta) for horizon in (10_000, 40_000))
    assert 2 < four / one < 2.6
