"""Replies of a node: which members answered and with what, and why others did not."""

from collections.abc import Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from flwr_kld.kernel.vector import Held
from flwr_kld.trust.envelopes import ANSWER, NUMBERS, Answer


def reply(
    message: Message, answer: Answer, numbers: Mapping[int, Held[bytes]] | None = None
) -> Message:
    """Answer a message; `numbers` are those of the members that do."""
    content = RecordDict({ANSWER: ConfigRecord(answer.to_config())})
    content[NUMBERS] = ConfigRecord(
        {NUMBERS: [own.into(bytes) for own in numbers.values()]} if numbers else {}
    )
    return Message(content, reply_to=message)


def reply_record(message: Message, values: Mapping[str, Any], *, place: str = ANSWER) -> Message:
    """Reply with one record."""
    return Message(RecordDict({place: ConfigRecord({**values})}), reply_to=message)


def refuse(message: Message, reason: str, other_night: int = 0) -> Message:
    """Say why nobody here answers; of a session, also by which other night it ends."""
    return reply(message, Answer("", [], [reason], other_night))
