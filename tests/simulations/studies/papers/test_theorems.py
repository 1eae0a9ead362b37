"""The theorems' bounds are of the stated order."""

import pytest

from flwr_kld.simulations.studies.papers.learners import kl_risk


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_risk_of_both_algorithms_is_of_the_order_of_a_root(delta):
    """But for three logarithms: four times the reports double the bound, and a half more."""
    one, four = (kl_risk(10, 1.0, horizon, delta=delta) for horizon in (10_000, 40_000))
    assert 2 < four / one < 2.6
