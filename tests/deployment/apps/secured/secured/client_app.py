"""A hospital, or the aggregator that hospitals trust: its operator's files say which, and who.

The test writes `pinned.py`: the key that hospitals seal their counts to.
"""

import time
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import PinnedByNode, aggregate_drift_checks, answer_drift_queries
from secured.pinned import AGGREGATOR

app = ClientApp()


def records(context: Context) -> list[str]:
    """This node's records. If the test has set a trap here, the node is caught in it."""
    trap = Path(str(context.node_config["trap"]))
    if trap.exists():
        trap.with_suffix(".caught").touch()
        time.sleep(120)
        raise TimeoutError
    return Path(str(context.node_config["records"])).read_text().split()


answer_drift_queries(
    app,
    records,
    Labels(["bus", "car", "train", "walk"]),
    secure_sum=PinnedByNode(),
    aggregator=AGGREGATOR,
)
aggregate_drift_checks(app)
