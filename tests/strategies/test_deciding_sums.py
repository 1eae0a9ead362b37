"""A check that decides over secure sums: every client takes part in one of four messages."""

import numpy as np
import pytest
from federation import grid_of
from flwr.clientapp import ClientApp
from guarded_nodes import summed, summing

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.inference.score_sum import ScoreSum
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Distributed, KLDrift, Trusted


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


def test_clients_who_differ_in_how_they_drift_widen_the_error(monkeypatch):
    """A tenth of them hold the last of 100 labels: what they count differs most in that."""
    domain = Labels(list(range(100)))
    reference = Reference.from_probabilities(domain, np.full(100, 0.01))

    def records(context):
        own = int(context.node_config["partition-id"])
        return np.random.default_rng(own).integers(0 if own % 10 else 50, 100, 100)

    app = ClientApp()
    answer_drift_queries(app, records, domain)

    def deviation() -> float:
        monitor = KLDrift(reference, Trusted(1.0), threshold=0.05, about="the population", seed=1)
        return monitor.check(InProcessGrid(app, 200)).reading.of_population.deviation

    stated = deviation()
    monkeypatch.setattr(ScoreSum, "design_effect", 1.0)
    assert stated > 1.3 * deviation()
