"""One app that answers drift checks, secure sums and a predictor; some nodes lie to the latter."""

import struct

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from flwr_kld import Labels
from flwr_kld.clients import FirstUse, answer_drift_queries, answer_predictor_queries
from flwr_kld.trust.envelopes import NUMBERS, PREDICT_ACTION, REPORT

USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
MOVED = {"bus": 1000, "car": 1200, "train": 5800, "walk": 2000}
labels = Labels(sorted(USUAL))


def records(context: Context) -> list[str]:
    """Ten thousand trips, the same number of each kind on every node."""
    counts = MOVED if context.run_config["moved"] else USUAL
    return [name for name, n in counts.items() for _ in range(n)]


def lie(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Report a symbol that cannot be, if this node's config says so."""
    reply = call_next(message, context)
    predicting = message.metadata.message_type == f"query.{PREDICT_ACTION}"
    if predicting and context.node_config["lies"]:
        query, _ = struct.unpack(REPORT, reply.content[NUMBERS][NUMBERS][0])
        reply.content[NUMBERS] = ConfigRecord({NUMBERS: [struct.pack(REPORT, query, 99)]})
    return reply


app = ClientApp(mods=[lie])
answer_drift_queries(app, records, labels, secure_sum=FirstUse())
answer_predictor_queries(app, records, labels)
