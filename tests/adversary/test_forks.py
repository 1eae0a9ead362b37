"""Nobody lies, and a server forks after its strategy was built: two workers, say, of one module."""

import pytest
from federation import REFERENCE, app_of, grid_of
from forks import in_a_fork
from sealed_federation import KEY, federation

from flwr_kld.clients import FirstUse
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
)

EPSILON = 0.02
"""Noise of a standard deviation of 141 in each of six cells: all are the same in one of 10^14."""
MONITORS = {
    "plain": lambda: KLDrift(REFERENCE, Trusted(EPSILON)),
    "sum": lambda: KLDrift(REFERENCE, Trusted(EPSILON), aggregation=SecureSum()),
    "sealed": lambda: KLDrift(REFERENCE, TrustedAggregator(EPSILON, aggregator=KEY.public)),
    "shares": lambda: KLDrift(
        REFERENCE, Distributed(EPSILON, min_clients=5), aggregation=SecureSum()
    ),
}


@pytest.mark.parametrize("name", MONITORS)
def test_two_processes_of_one_strategy_share_no_noise(name):
    """The same noise on two cohorts would show the exact difference of their counts."""
    app = app_of(secure_sum=FirstUse(), aggregator=KEY.public)
    grid = federation(app) if name == "sealed" else grid_of(app, nodes=8)
    monitor = MONITORS[name]()  # before the fork
    checked = lambda: repr(monitor.check(grid).reading.estimate).encode()  # noqa: E731
    assert in_a_fork(checked) != checked()
