"""What runs in a ClientApp."""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.clients.aggregator import AggregatorLimits, aggregate_drift_checks
    from flwr_kld.clients.drift_queries import answer_drift_queries, host_drift_queries
    from flwr_kld.clients.predictor_queries import answer_predictor_queries
    from flwr_kld.clients.records_of_node import node_records
    from flwr_kld.clients.sum_members import FirstUse, PinnedByNode, SumMembers
    from flwr_kld.clients.training import guard_training
    from flwr_kld.clients.weighted_records import loss_weights
    from flwr_kld.trust.sealing import AggregatorKey

__all__ = [
    "AggregatorKey",
    "AggregatorLimits",
    "FirstUse",
    "PinnedByNode",
    "SumMembers",
    "aggregate_drift_checks",
    "answer_drift_queries",
    "answer_predictor_queries",
    "guard_training",
    "host_drift_queries",
    "loss_weights",
    "node_records",
]

__getattr__, __dir__ = on_request(__name__)
