"""A client, or one of two aggregators: its node config says which.

The bench writes `pinned.py`: the keys that clients seal their counts to.
"""

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from asked.pinned import AGGREGATORS
from flwr_kld import Labels
from flwr_kld.clients import PinnedByNode, aggregate_drift_checks, answer_drift_queries

USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
labels = Labels(sorted(USUAL))
app = ClientApp()


def records(context: Context) -> list[str]:
    """Return ten thousand trips."""
    return [name for name, n in USUAL.items() for _ in range(n)]


@app.query("nothing")
def nothing(message: Message, context: Context) -> Message:
    """Answer without any work."""
    return Message(RecordDict(), reply_to=message)


answer_drift_queries(
    app,
    records,
    labels,
    secure_sum=PinnedByNode(),
    aggregator=AGGREGATORS[0],
    aggregators=AGGREGATORS,
)
aggregate_drift_checks(app)
