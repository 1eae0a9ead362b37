"""A report says where the seconds of its check went."""

import pytest
from federation import REFERENCE, grid_of

from flwr_kld.strategies import KLDrift, Trusted


def test_a_report_says_where_its_seconds_went():
    """Here clients compute while the server waits; with a real network that takes longer."""
    cost = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of()).cost
    assert 0 < cost.asking < cost.waiting
    assert cost.computing > 0
    assert cost.asking + cost.waiting + cost.computing == pytest.approx(cost.seconds)
    assert cost.time.startswith(f"{cost.seconds:.1f} s ({cost.asking:.1f} asking, ")
