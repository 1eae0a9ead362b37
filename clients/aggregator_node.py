"""What every kind of aggregator does with its node's files and with messages."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict

from flwr_kld.clients.node_files import read_named
from flwr_kld.clients.role import is_aggregator
from flwr_kld.errors import QueryRefused
from flwr_kld.messages.question import ANSWER, Answer
from flwr_kld.messages.sealing import AggregatorKey

logger = logging.getLogger("flwr_kld")


def key_of(context: Context, given: AggregatorKey | None) -> AggregatorKey:
    """Return the aggregator's key: the one that the app was given, or the node's own."""
    if given is not None:
        return given
    if not is_aggregator(context):
        raise QueryRefused("this node is not an aggregator")
    return read_named(context, "drift-key", "the aggregator's key", AggregatorKey, secret=True)


def default_memory(key: AggregatorKey) -> Path:
    """Return this machine's file of answered checks for a key, in Flower's own folder."""
    # Imported here: clients do without.
    from flwr.supercore.utils import get_flwr_home

    folder = get_flwr_home() / "flwr-kld"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        logger.error("the memory of checks cannot be kept in %s: %s", folder, error)
        raise QueryRefused(
            "the memory of checks cannot be used: the operator's log says why"
        ) from None
    return folder / f"aggregated-{key.public.hex()[:16]}.db"


def record_of(content: RecordDict, name: str) -> ConfigRecord:
    """Return a record of a message; an empty one if it has none of that name."""
    record = content.get(name)
    return record if isinstance(record, ConfigRecord) else ConfigRecord()


def boxes_of(record: ConfigRecord) -> dict[str, bytes]:
    """Return boxes by sender."""
    boxes = {sender: box for sender, box in record.items() if isinstance(box, bytes)}
    if len(boxes) != len(record):
        raise QueryRefused("sealed counts are bytes")
    return boxes


def refuse(message: Message, reason: str) -> Message:
    """Return a refusal."""
    content = RecordDict({ANSWER: ConfigRecord(Answer("", "", [], [reason]).to_config())})
    return Message(content, reply_to=message)
