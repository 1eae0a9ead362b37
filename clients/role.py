"""Which role a node has: a client, or the aggregator that others trust."""

from __future__ import annotations

from flwr.app import Context

ROLE = "drift-role"
"""Key of the node config; ``"aggregator"`` makes a node the aggregator."""


def is_aggregator(context: Context) -> bool:
    """Whether the node's operator made it an aggregator: it holds no records and trains nothing."""
    return context.node_config.get(ROLE) == "aggregator"
