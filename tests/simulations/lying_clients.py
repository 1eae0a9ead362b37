"""The simulation's ClientApp; on three of the nodes everybody lies to the predictor.

The test puts it in the place of the drift app's own `client_app.py`.
"""

import struct
from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from flwr_kld.simulations.virtual_clients import virtual_clients
from flwr_kld.trust.envelopes import ANSWER, NUMBERS, PREDICT_ACTION, REPORT

honest = virtual_clients()


class Liars(ClientApp):
    """Hears what honest clients say, and changes it."""

    def __call__(self, message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if message.metadata.message_type == f"query.{PREDICT_ACTION}":
            lie = LIES.get(int(context.node_config["partition-id"]))
            if lie is not None:
                lie(reply, context)
        return reply


def changed(reply: Message, lie: Callable[[int, int], tuple[int, int]]) -> None:
    said = (struct.unpack(REPORT, own) for own in reply.content[NUMBERS][NUMBERS])
    told = [struct.pack(REPORT, *lie(query, symbol)) for query, symbol in said]
    reply.content[NUMBERS] = ConfigRecord({NUMBERS: told})


def impossible_report(reply: Message, _: Context) -> None:
    changed(reply, lambda query, symbol: (query, 99))


def wrong_query(reply: Message, _: Context) -> None:
    changed(reply, lambda query, symbol: (query + 1, symbol))


def first_rounds_reply(reply: Message, context: Context) -> None:
    for part in (ANSWER, NUMBERS):
        reply.content[part] = context.state.setdefault(f"first {part}", reply.content[part])


LIES = {0: impossible_report, 1: wrong_query, 2: first_rounds_reply}
"""By partition id."""
app = Liars()
