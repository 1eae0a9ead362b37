"""Where nobody sees how many records a client has, both halves of a check count the same limit."""

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, grid_of

from flwr_kld.clients import FirstUse
from flwr_kld.strategies import Distributed, KLDrift, SecureSum

CLIENTS, LARGE, SMALL = 44, 150, 20


def records(context):
    """A quarter of the clients have many records, all of the fruit that others lack."""
    large = context.node_id % 4 == 0
    rng = np.random.default_rng(context.node_id)
    return rng.choice(FRUIT.names[:2] if large else FRUIT.names[2:], LARGE if large else SMALL)


@pytest.fixture(scope="module")
def checks():
    trust = Distributed(3.0, min_clients=10)
    monitor = KLDrift(
        REFERENCE, trust, aggregation=SecureSum(), threshold=0.3, about="the population"
    )
    grid = grid_of(app_of(records, secure_sum=FirstUse()), CLIENTS)
    return [monitor.check(grid) for _ in range(3)]


def test_the_first_check_sets_the_limit_that_later_ones_keep_in_both_halves(checks):
    first, *later = checks
    most = first.one_client.most_records
    assert SMALL < most < LARGE
    for report in later:
        assert report.one_client.most_records == most
        assert report.reading.records <= CLIENTS // 2 * most
        assert report.reading.drawn_from.endswith(f"counting at most {most} records of each")
        assert report.verdict.population.endswith(f"counting at most {most} records of each")


def test_what_is_thrown_away_is_said(checks):
    for report in checks:
        assert 0.1 < report.one_client.left_out < 0.7
        assert "% of the records are beyond" in report.one_client.note
