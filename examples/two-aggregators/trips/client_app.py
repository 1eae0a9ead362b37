"""A client, or an aggregator: its operator's files say which, and who the others are."""

import os
from pathlib import Path

from flwr.clientapp import ClientApp

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import (
    AggregatorLimits,
    PinnedByNode,
    aggregate_drift_checks,
    answer_drift_queries,
    node_records,
)

TRIPS = Table({"mode": Labels(["bus", "car", "train", "walk"]), "km": Binned([1, 2, 5, 10, 20])})


def aggregators() -> tuple[bytes, bytes]:
    """Public keys that the operator of this machine pins, not the server."""
    first, second = Path(os.environ["TRIPS_AGGREGATORS"]).read_text().split()
    return bytes.fromhex(first), bytes.fromhex(second)


app = ClientApp()
answer_drift_queries(app, node_records, TRIPS, secure_sum=PinnedByNode(), aggregators=aggregators())
aggregate_drift_checks(app, limits=AggregatorLimits(min_clients=2))
