"""One app for aggregator and clients, deployed by node config, for tests of both."""

from federation import FRUIT, basket
from flwr.clientapp import ClientApp
from sealed_federation import AGGREGATOR, KEY, WatchedGrid

from flwr_kld.clients import AggregatorLimits, aggregate_drift_checks, answer_drift_queries


def shared_app(**limits) -> ClientApp:
    """The one app that a deployment ships to all nodes."""
    app = ClientApp()
    answer_drift_queries(app, basket, FRUIT, aggregator=KEY.public)
    aggregate_drift_checks(app, limits=AggregatorLimits(**limits))
    return app


def deployed(app: ClientApp, node_config: dict, **grid) -> WatchedGrid:
    """Nodes that all run `app`; the last one's operator made it the aggregator."""

    def run(message, context):
        if context.node_id == AGGREGATOR:
            context.node_config.update({"drift-role": "aggregator", **node_config})
        return app(message, context)

    return WatchedGrid(run, **grid)
