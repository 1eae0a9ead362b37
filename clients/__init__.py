"""What runs in a ClientApp."""

from flwr_kld.clients.drift_queries import answer_drift_queries, host_drift_queries

__all__ = ["answer_drift_queries", "host_drift_queries"]
