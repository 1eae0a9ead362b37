"""The simulation's ClientApp; on three of the nodes everybody lies to the predictor.

The test puts it in the place of the drift app's own `client_app.py`.
"""

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from flwr_kld.messages.envelopes import ANSWER, PHASE, PREDICT_ACTION
from flwr_kld.simulations.virtual_clients import virtual_clients

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


def impossible_report(reply: Message, _: Context) -> None:
    said = reply.content[PHASE]
    reply.content[PHASE] = ConfigRecord({who: [query, 99] for who, (query, _) in said.items()})


def wrong_query(reply: Message, _: Context) -> None:
    said = reply.content[PHASE]
    reply.content[PHASE] = ConfigRecord({who: [query + 1, z] for who, (query, z) in said.items()})


def first_rounds_reply(reply: Message, context: Context) -> None:
    for part in (ANSWER, PHASE):
        reply.content[part] = context.state.setdefault(f"first {part}", reply.content[part])


LIES = {0: impossible_report, 1: wrong_query, 2: first_rounds_reply}
"""By partition id."""
app = Liars()
