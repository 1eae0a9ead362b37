"""A check that decides over secure sums: every client takes part in one of four messages."""

import pytest
from federation import grid_of
from guarded_nodes import summed, summing

from flwr_kld.strategies import Distributed


@pytest.mark.parametrize("about", ["these clients", "the population"])
def test_a_deciding_check_asks_every_client_for_one_sum(about):
    heard: dict[int, list[bool]] = {}
    app = summing()

    def spy(message, context):
        if message.metadata.message_type == "query.drift_sum":
            heard.setdefault(context.node_id, []).append("terms" in message.content)
        return app(message, context)

    trust = Distributed(epsilon=1.0, min_clients=16)
    report = summed(trust, threshold=0.1, about=about).check(grid_of(spy, nodes=44))
    assert list(heard.values()) == [[True, False, False, False]] * 44
    assert report.cohort.dropouts == {}
    assert report.verdict.holds
