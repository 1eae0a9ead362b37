"""The question a server asks and what comes back, as plain values that Flower records can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Json, Strict

from flwr_kld.codec.json_text import json_text
from flwr_kld.codec.model import Flat, Model, must
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import Unfit
from flwr_kld.kernel.count import NUMBERS, InvalidReply, Scores
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.query.plan import cells_from_wire
from flwr_kld.query.score_wire import NO_SCORES, most_records_of, scores_from_wire
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
SPLIT_ACTION = "drift_split"
"""Asks a node's clients for counts split between two aggregators."""
PART_ACTION = "drift_part"
"""Hands each of the two its part of them; it answers with its part of the noised sum."""
PREDICT_ACTION = "drift_predict"
"""Asks a node's clients for one privatised label each."""
QUESTION = "question"
MODEL = "model"
"""The arrays that clients compute predictions with, beside the question."""
NO_MODEL = "none"
"""Flower cannot count the bytes of an empty text."""
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
TRUST_MODELS = ("trusted", "distributed", "trusted-aggregator", "two-aggregators", "local")
"""Who adds the noise: the server, the clients, a node that is trusted to, two nodes each of which
adds enough, or each client alone."""
VERSION = 9
"""Of the messages of a check. Each says it, and is read by the same version only."""
MOST_COLUMNS = 4096
"""Of a table: what a client does for a question must not depend on a server alone."""
_TOLD_OTHERWISE = frozenset({"members", "wire", "score_wire"})
_LONGEST_ID = 64
_LONGEST_REASON = 10_000
_MOST_MEMBERS = 2**24
_MOST_HOSTED = 2**20
_MOST_NUMBERS = 2**31 - 1
"""Largest whole number of a question: what travels and is multiplied stays within 64 bits."""


class ModelArray(Protocol):
    """One array of a model, as Flower's ``Array`` carries it."""

    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


def model_fingerprint(model: Mapping[str, ModelArray]) -> str:
    """SHA-256 (hex) of a model's arrays, in their order: all that a loader sees of them."""
    digest = sha256(b"flwr-kld model 1\n")
    for name, array in model.items():
        head = [name, array.dtype, list(array.shape), array.stype, len(array.data)]
        digest.update(f"{json_text(head)}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def member_of(key: str) -> int:
    """Read a member's number where it is the key of a record: ``str(member)`` and nothing else."""
    if len(key) <= _LONGEST_ID and key.isascii() and key.isdecimal() and key == str(int(key)):
        return int(key)
    raise QueryRefused("the key of a request is not the number of a client")


_Id = Annotated[
    str, Field(min_length=1, max_length=_LONGEST_ID), must("be printable", str.isprintable)
]
_Number = Annotated[int, Strict(), Field(ge=0, le=_MOST_NUMBERS)]
_Member = Annotated[str, Field(pattern="^(0|[1-9][0-9]{0,9})$")]
_Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Reason = Annotated[str, Field(max_length=_LONGEST_REASON)]
_EACH_ONCE = must("name nobody twice", lambda members: len(members) == len(set(members)))
_Positive = Annotated[int, Field(ge=1, le=_MOST_NUMBERS)]


@dataclass(frozen=True)
class Question(Model, what="the question", version=VERSION, refused=QueryRefused):
    """What is counted, by whom, and for which check."""

    check: _Id  # Random id of the check; replies repeat it
    domain: _Id  # Fingerprints of what the server means
    reference: _Id
    plan: _Id
    cells: _Positive  # Length of the count vector
    wire: bytes  # The cells, ``QueryPlan.wire``
    # Which of the node's clients are asked: ``[0]`` unless the node hosts many
    members: Annotated[
        list[_Number],
        Field(max_length=_MOST_MEMBERS),
        _EACH_ONCE,
    ]
    # One of `TRUST_MODELS`
    trust: Annotated[str, must(f"be one of {', '.join(TRUST_MODELS)}", TRUST_MODELS.__contains__)]
    guarantee: Flat[Guarantee]  # What the check claims to spend, and to hide
    asked: _Positive  # Clients in the cohort, as the server says
    # Symbols that a record has: 1, or of a table as many as columns
    columns: Annotated[int, Strict(), Field(ge=1, le=MOST_COLUMNS)] = 1
    selection: Json[Selection] = EVERYTHING  # Which records are counted
    # Most records a client may count, a uniform sample of its own; 0 for no limit
    clip: _Number = 0
    # What clients add up in each column and answer with, over at most ``clip`` records each,
    # ``QueryPlan.score_wire``; `NO_SCORES` if they answer with the counts
    score_wire: bytes = NO_SCORES
    # `model_fingerprint` of the arrays that are shown with it; `NO_MODEL` if none are
    model: Annotated[str, Field(pattern="^(none|[0-9a-f]{64})$")] = NO_MODEL

    def __post_init__(self) -> None:
        if self.adds_scores and most_records_of(self.score_wire) != self.clip:
            raise Unfit("clip", "the most records of the scores", self.clip)

    @classmethod
    def from_config(cls, config: object) -> Question:
        """Read a ConfigRecord; the error is a `QueryRefused`.

        Nodes of one process are sent the same question, which is public: it is read once.
        """
        values = dict(config) if isinstance(config, Mapping) else {}
        try:
            return _read(tuple((name, *_frozen(value)) for name, value in values.items()))
        except TypeError:  # holds what no ConfigRecord does
            return super().from_config(values)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that clients of one sum are asked alike.

        Who of a node's clients are asked is left out, and what the plan's fingerprint stands for.
        """
        told = {k: v for k, v in self.to_config().items() if k not in _TOLD_OTHERWISE}
        text = json_text(told, sort_keys=True, separators=(",", ":"))
        return sha256(f"flwr-kld question 1\0{text}".encode()).hexdigest()

    @property
    def length(self) -> int:
        """Length of a client's vector: one number a cell, or its sums."""
        return len(NUMBERS) * self.columns if self.adds_scores else self.cells

    @property
    def adds_scores(self) -> bool:
        """Whether clients answer with sums of scores, not with counts."""
        return self.score_wire != NO_SCORES

    @property
    def scores(self) -> tuple[Scores, ...] | None:
        """What `score_wire` says, once `cell_of` held it against the domain; None for counts."""
        return scores_from_wire(self.score_wire, self.columns, self.cells)

    def cell_of(self, sizes: tuple[int, ...]) -> NDArray[np.int32]:
        """Return the cell of each symbol, as `cells_from_wire` does and with its errors."""
        return cells_from_wire(
            self.wire,
            sizes,
            self.cells,
            self.reference,
            self.plan,
            self.selection,
            self.score_wire,
        )


def _frozen(value: Any) -> tuple[Any, Any]:
    """Return a value that can be hashed, and its type: True is not 1."""
    if type(value) is list:
        return tuple(value), tuple(map(type, value))
    return value, type(value)


@lru_cache(maxsize=4)
def _read(items: tuple[tuple[str, Any, Any], ...]) -> Question:
    values = {name: list(v) if type(kind) is tuple else v for name, v, kind in items}
    return super(Question, Question).from_config(values)


@dataclass(frozen=True)
class Hosted(Model, what="the list of hosted clients", version=VERSION, refused=InvalidReply):
    """Which clients a node hosts."""

    # Number of each, at most 2**20 of them
    members: Json[Annotated[tuple[_Number, ...], Field(max_length=_MOST_HOSTED), _EACH_ONCE]]


@dataclass(frozen=True)
class Signers(Model, what="the list of signers", version=VERSION, refused=InvalidReply):
    """Under which names and keys a node's clients sign in a secure sum."""

    # Name and public key, hexadecimal, by number of the member
    signers: Json[dict[_Member, tuple[str, _Key]]]
    refused: Json[tuple[_Reason, ...]]  # Why others do not; free of data values


@dataclass(frozen=True)
class Answer(Model, what="the answer", version=VERSION, refused=InvalidReply):
    """Which members answered, in the order of the rows of the counts, and why others did not."""

    # Repeated from the question; empty if the question itself was refused
    check: Annotated[str, Field(max_length=_LONGEST_ID)]
    plan: Annotated[str, Field(max_length=_LONGEST_ID)]
    answered: Annotated[list[_Number], Field(max_length=_MOST_MEMBERS)]  # Members that answered
    # One for each asked member that did not answer, or the one reason why the question was refused;
    # free of data values
    reasons: Annotated[list[_Reason], Field(max_length=_MOST_MEMBERS)]

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord: one JSON text (lists may be empty)."""
        return {ANSWER: self.to_json()}

    @classmethod
    def from_config(cls, config: object) -> Answer:
        """Read a ConfigRecord."""
        return cls.from_json(config.get(ANSWER) if isinstance(config, Mapping) else None)
