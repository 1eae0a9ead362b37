"""Twenty fruit lovers and an aggregator, on a grid that records what the server handles."""

import copy
from collections.abc import Callable, Iterator

from federation import REFERENCE, app_of
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients import AggregatorKey, AggregatorLimits, aggregate_drift_checks
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, TrustedAggregator

KEY = AggregatorKey.generate()
NODES = 20
AGGREGATOR = 1000 + NODES


class WatchedGrid(InProcessGrid):
    """Keeps every message that the server sends and receives, and may change them."""

    def __init__(self, app, nodes: int = NODES + 1, *, meddle=None, lose=None) -> None:
        super().__init__(app, nodes, lose=lose)
        self.sent: list[Message] = []
        self.received: list[Message] = []
        self.meddle = meddle or (lambda message: None)

    def push_messages(self, messages):
        messages = list(messages)
        for message in messages:
            self.meddle(message)
            self.sent.append(copy.deepcopy(message))
        return super().push_messages(messages)

    def pull_messages(self, message_ids):
        replies = list(super().pull_messages(message_ids))
        self.received.extend(copy.deepcopy(replies))
        return replies

    def handled(self) -> Iterator[bytes | str | float]:
        """Every value in every message that the server handled."""
        for message in (*self.sent, *self.received):
            if message.has_error():
                yield str(message.error.reason)
            else:
                yield from values_of(message.content)

    def boxes(self) -> list[bytes]:
        """Sealed counts that the server received, in order."""
        return [
            box
            for message in self.received
            if message.has_content()
            for boxes in record_of(message.content, "numbers").values()
            for box in boxes
        ]

    def requests(self) -> list[Message]:
        """What the aggregator was asked."""
        return [m for m in self.sent if m.metadata.message_type == "query.drift_aggregate"]

    def again(self, message: Message) -> RecordDict:
        """Send a copy of a message; return what comes back."""
        copied = Message(
            copy.deepcopy(message.content),
            message.metadata.dst_node_id,
            message.metadata.message_type,
        )
        (reply,) = self.send_and_receive([copied])
        return reply.content


def record_of(content: RecordDict, name: str) -> ConfigRecord:
    record = content.get(name)
    return record if isinstance(record, ConfigRecord) else ConfigRecord()


def values_of(content: RecordDict) -> Iterator[bytes | str | float]:
    for record in content.values():
        for name, value in record.items():
            yield name
            if isinstance(record, ArrayRecord):
                yield value.data
            elif isinstance(value, list):
                yield from (*value, str(value))
            else:
                yield value


def federation(
    clients: Callable | None = None,
    *,
    limits: AggregatorLimits | None = None,
    key: AggregatorKey = KEY,
    nodes: int = NODES,
    **grid,
) -> WatchedGrid:
    """Nodes from 1000 run `clients`; the one after the last of them is the aggregator."""
    people = clients or app_of(aggregator=KEY.public)
    app = ClientApp()
    aggregate_drift_checks(app, key=key, limits=limits)

    def dispatch(message, context):
        return (app if context.node_id == 1000 + nodes else people)(message, context)

    return WatchedGrid(dispatch, nodes + 1, **grid)


def monitor(epsilon: float = 3.0, trust: dict | None = None, **options) -> KLDrift:
    model = TrustedAggregator(epsilon, aggregator=KEY.public, **(trust or {}))
    return KLDrift(REFERENCE, model, **options)


def on_request(change: Callable[[RecordDict], None], *nodes: int) -> Callable[[Message], None]:
    """A server that changes what it hands to the aggregators, or to some of them."""

    def meddle(message: Message) -> None:
        asked = message.metadata
        meant = not nodes or asked.dst_node_id in nodes
        if meant and asked.message_type == "query.drift_aggregate":
            change(message.content)

    return meddle
