"""A client, or the aggregator, that dies when its operator has set a trap.

The test writes `pinned.py`: the key that clients seal their counts to.
"""

from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import AggregatorLimits, aggregate_drift_checks, answer_drift_queries
from standing.pinned import AGGREGATOR
from standing.trap import die_after

USUAL = {"bus": 310, "car": 250, "train": 120, "walk": 320}
labels = Labels(sorted(USUAL))


def trapped(
    message: Message, context: Context, handle: Callable[[Message, Context], Message]
) -> Message:
    """A mod: if there is a trap, die so many seconds after the message has come."""
    trap = Path(str(context.node_config["trap"]))
    if trap.exists() and message.content.get("terms") is not None:
        die_after(float(trap.read_text()), trap)
    return handle(message, context)


def records(context: Context) -> list[str]:
    """A thousand trips."""
    return [name for name, n in USUAL.items() for _ in range(n)]


app = ClientApp(mods=[trapped])
answer_drift_queries(
    app,
    records,
    labels,
    record_ids=lambda context: list(range(len(records(context)))),
    aggregator=AGGREGATOR,
)
aggregate_drift_checks(app, limits=AggregatorLimits(min_clients=2))
