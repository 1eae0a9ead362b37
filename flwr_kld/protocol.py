"""The question a server asks and what comes back, as plain values that Flower records can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr_kld.errors import InvalidReply, QueryRefused

DRIFT_ACTION = "drift"
"""Flower routes the question by message type ``query.drift``."""
HOSTED_ACTION = "drift_hosted"
"""Asks a simulation's node which virtual clients it hosts."""

QUESTION = "question"
ANSWER = "answer"
COUNTS = "counts"
COUNTS_FORMAT = "flwr_kld.int32-le"
"""Serialisation of counts: plain little-endian int32, cheaper to read than Flower's .npy."""
_VERSION = 1


@dataclass(frozen=True)
class Question:
    """What is counted, by whom, and for which check.

    Parameters
    ----------
    check : str
        Random id of the check; replies repeat it.
    domain, reference, plan : str
        Fingerprints of what the server means.
    cells : int
        Length of the count vector.
    wire : bytes
        The cells, ``QueryPlan.wire``.
    members : list[int]
        Which of the node's clients are asked: ``[0]`` unless the node hosts many.
    clip : int
        Most records a client may count (client-level privacy); 0 for no limit.
    """

    check: str
    domain: str
    reference: str
    plan: str
    cells: int
    wire: bytes
    members: list[int]
    clip: int = 0

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord."""
        return {"version": _VERSION, **vars(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Question:
        """Read a ConfigRecord.

        Raises
        ------
        QueryRefused
            If it was written by another version of the protocol or is incomplete.
        """
        if config.get("version") != _VERSION:
            raise QueryRefused(
                f"the server speaks another version of the drift protocol (this is {_VERSION}): "
                "install the same flwr-kld on both sides"
            )
        for name, kind in _QUESTION_TYPES.items():
            if type(config.get(name)) is not kind:
                raise QueryRefused(f"the question's {name} is missing or not of its type")
        return cls(**{name: config[name] for name in _QUESTION_TYPES})


_QUESTION_TYPES: dict[str, type] = {
    **dict.fromkeys(("check", "domain", "reference", "plan"), str),
    **dict.fromkeys(("cells", "clip"), int),
    "wire": bytes,
    "members": list,
}


@dataclass(frozen=True)
class Answer:
    """Which members answered, in the order of the rows of the counts, and why others did not.

    Parameters
    ----------
    check, plan : str
        Repeated from the question; empty if the question itself was refused.
    answered : list[int]
        Members.
    reasons : list[str]
        One for each asked member that did not answer, or the one reason why the question was
        refused; free of data values.
    """

    check: str
    plan: str
    answered: list[int]
    reasons: list[str]

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord: one JSON text (lists may be empty)."""
        return {ANSWER: json.dumps(vars(self))}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Answer:
        """Read a ConfigRecord.

        Raises
        ------
        InvalidReply
            If it is not an answer.
        """
        try:
            answer = cls(**json.loads(config[ANSWER]))
            texts, members = [answer.check, answer.plan, *answer.reasons], answer.answered
            sound = (
                all(type(part) is list for part in (answer.reasons, members))
                and all(type(t) is str for t in texts)
                and all(type(m) is int for m in members)
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            sound = False
        if not sound:
            raise InvalidReply("the reply is not an answer to a drift question")
        return answer
