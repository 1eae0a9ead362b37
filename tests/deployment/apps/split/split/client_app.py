"""A client, or one of the two aggregators: its operator's files say which, and who.

The test writes `pinned.py`: the keys that clients split their counts between.
"""

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import (
    AggregatorLimits,
    PinnedByNode,
    aggregate_drift_checks,
    answer_drift_queries,
)
from split.pinned import AGGREGATORS

USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
labels = Labels(sorted(USUAL))


def records(context: Context) -> list[str]:
    """Ten thousand trips, the same number of each kind on every node."""
    return [name for name, n in USUAL.items() for _ in range(n)]


app = ClientApp()
answer_drift_queries(app, records, labels, secure_sum=PinnedByNode(), aggregators=AGGREGATORS)
aggregate_drift_checks(app, limits=AggregatorLimits(min_clients=2))
