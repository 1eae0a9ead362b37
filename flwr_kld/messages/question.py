"""The question a server asks and what comes back, as plain values that Flower records can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flwr_kld.errors import InvalidReply, QueryRefused
from flwr_kld.privacy.guarantee import Guarantee
from flwr_kld.query.selection import EVERYTHING, Selection

DRIFT_ACTION = "drift"
"""Flower routes the question by message type ``query.drift``."""
HOSTED_ACTION = "drift_hosted"
"""Asks a simulation's node which virtual clients it hosts."""

IDENTITY_ACTION = "drift_identity"
"""Asks under which names and keys a node's clients sign."""
SUM_ACTION = "drift_sum"
"""One phase of a secure sum: requests to a node's clients, and their answers."""

ROLE_ACTION = "drift_role"
"""Asks an aggregator for its public key."""
SEAL_ACTION = "drift_seal"
"""Asks a node's clients for counts that only the aggregator can open."""
AGGREGATE_ACTION = "drift_aggregate"
"""Hands those to the aggregator, which answers with noised numbers."""

PREDICT_ACTION = "drift_predict"
"""Asks a node's clients for one privatised label each."""

QUESTION = "question"
QUERY = "query"
"""Queries of a predictor: ``query.7`` is number 7; ``query`` says which member gets which."""
TERMS = "terms"
PHASE = "phase"
ANSWER = "answer"
SEALED = "sealed"
PLAN = "plan"
PUBLISHED = "published"
COUNTS = "counts"
COUNTS_FORMAT = "flwr_kld.int32-le"
"""Serialisation of counts: plain little-endian int32, cheaper to read than Flower's .npy."""
TRUST_MODELS = ("trusted", "distributed", "trusted-aggregator", "local")
"""Who adds the noise: the server, the clients, a node that is trusted to, or each client alone."""
_VERSION = 4
_LONGEST_ID = 64
_MOST_NUMBERS = 2**31 - 1
"""Largest whole number of a question: what travels and is multiplied stays within 64 bits."""


def member_of(key: str) -> int:
    """Read a member's number where it is the key of a record: ``str(member)`` and nothing else.

    Raises
    ------
    QueryRefused
        If the key is written in another way, or is no number of a member.
    """
    if len(key) <= _LONGEST_ID and key.isascii() and key.isdecimal() and key == str(int(key)):
        return int(key)
    raise QueryRefused("the key of a request is not the number of a client")


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
    selection : str
        Which records are counted and in which groups, ``Selection.to_json``.
    clip : int
        Most records a client may count, a uniform sample of its own; 0 for no limit.
    trust : str
        One of `TRUST_MODELS`.
    guarantee : Guarantee
        What the check claims to spend, and to hide.
    asked : int
        Clients in the cohort, as the server says.
    """

    check: str
    domain: str
    reference: str
    plan: str
    cells: int
    wire: bytes
    members: list[int]
    trust: str
    guarantee: Guarantee
    asked: int
    selection: str = EVERYTHING.to_json()
    clip: int = 0

    @cached_property
    def selected(self) -> Selection:
        """Which records are counted."""
        return Selection.from_json(self.selection)

    @property
    def length(self) -> int:
        """Length of a client's vector: one number a cell and group."""
        return self.cells * self.selected.groups

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord."""
        values = {name: vars(self)[name] for name in _QUESTION_TYPES}
        return {"version": _VERSION, **values, **self.guarantee.to_wire()}

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
        try:
            guarantee, fault = Guarantee.from_wire(config), ""
        except ValueError as error:
            fault = str(error)
        if fault:  # raised out here, it keeps nothing of what was sent
            raise QueryRefused(f"the question's {fault}")
        question = cls(guarantee=guarantee, **{name: config[name] for name in _QUESTION_TYPES})
        try:
            question.selected  # noqa: B018  (parsed once, here)
        except ValueError as error:
            raise QueryRefused(str(error)) from None
        for name, sound in question._soundness().items():
            if not sound:
                raise QueryRefused(f"the question's {name} is out of range")
        return question

    def _soundness(self) -> dict[str, bool]:
        """Which values are in range. A comparison with NaN is false."""
        names = ("check", "domain", "reference", "plan")
        short = {n: 0 < len(vars(self)[n]) <= _LONGEST_ID for n in names}
        return {
            **{n: short[n] and vars(self)[n].isprintable() for n in names},
            "cells": 1 <= self.cells <= _MOST_NUMBERS,
            "members": (
                len(self.members) == len(set(self.members))
                and all(type(m) is int and 0 <= m <= _MOST_NUMBERS for m in self.members)
            ),
            "clip": 0 <= self.clip <= _MOST_NUMBERS,
            "trust": self.trust in TRUST_MODELS,
            "asked": 1 <= self.asked <= _MOST_NUMBERS,
        }


_QUESTION_TYPES: dict[str, type] = {
    **dict.fromkeys(("check", "domain", "reference", "plan", "trust", "selection"), str),
    **dict.fromkeys(("cells", "clip", "asked"), int),
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
