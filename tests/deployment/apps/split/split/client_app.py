"""A client, or one of the two aggregators: its operator's files say which, and who.

The test writes `pinned.py`: the keys that clients split their counts between. A client whose node
config says so lies: one of its bits is a thousand million.
"""

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld import Labels
from flwr_kld.clients import (
    AggregatorLimits,
    PinnedByNode,
    aggregate_drift_checks,
    answer_drift_queries,
)
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.field import Elements
from split.pinned import AGGREGATORS

USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
labels = Labels(sorted(USUAL))


def records(context: Context) -> list[str]:
    """Ten thousand trips, the same number of each kind on every node."""
    if context.node_config.get("liar"):
        encode = Counts.encode

        def lie(own: Counts, counts: NDArray[np.int64]) -> Elements:
            bits = encode(own, counts)
            bits[0] = 10**9
            return bits

        Counts.encode = lie
    return [name for name, n in USUAL.items() for _ in range(n)]


app = ClientApp()
answer_drift_queries(app, records, labels, secure_sum=PinnedByNode(), aggregators=AGGREGATORS)
aggregate_drift_checks(app, limits=AggregatorLimits(min_clients=2))
