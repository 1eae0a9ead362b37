"""`Terms`: the whole public question of a check, the same for all clients, under one fingerprint.

What is counted, what that claims to protect, and whose noise keeps the claim are one message. The
server makes it, every client holds it against its own limits, and an aggregator acts by it; a
secure sum's session, a sealed box and a guard's receipt each carry its fingerprint, so that
nobody can be told otherwise than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Json, Strict

from flwr_kld.ask.period import Period
from flwr_kld.ask.plan import LONGEST, cells_from_wire
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.common.json_text import json_text
from flwr_kld.common.strict_model import Model, must
from flwr_kld.kernel.arguments import InvalidArgument, set_fields
from flwr_kld.kernel.continual import MOST_NIGHTS, Continual, stream_of
from flwr_kld.kernel.promise import Allotment, Guarantee
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.kernel.vector import Layout
from flwr_kld.table.base import Domain
from flwr_kld.table.rounded_table import rounded
from flwr_kld.trust.calibration import (
    calibrate_shares,
    continual_release,
    least_noise,
    selection_release,
)

VERSION = 1
"""Version of the messages of a check; each carries it, and only the same version reads it."""
NO_MODEL = "none"
"""Flower rejects empty strings, so "none" stands for no model."""
MOST_COLUMNS = 4096
"""Of a table: what a client does for a check must not depend on a server alone."""
TRUST_MODELS = ("trusted", "distributed", "trusted-aggregator", "two-aggregators", "local")
"""Who adds the noise: the server, the clients, a node that is trusted to, two nodes each of which
adds enough, or each client alone."""
LONGEST_ID = 64
_MOST_NUMBERS = 2**31 - 1
"""Largest whole number of the terms: what travels and is multiplied stays within 64 bits."""

_LATEST = 2**40
_DAY = 24 * 60 * 60
_OPEN = 7
"""Days from a question to its last moment, at most."""

_Id = Annotated[
    str, Field(min_length=1, max_length=LONGEST_ID), must("be printable", str.isprintable)
]
Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Number = Annotated[int, Strict(), Field(ge=0, le=_MOST_NUMBERS)]
_Positive = Annotated[int, Strict(), Field(ge=1, le=_MOST_NUMBERS)]
MARK = 8
"""Hexadecimal digits of the random mark of a night."""


def model_fingerprint(model: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of Flower's ``Array``s, in their order: all that a loader sees of a model."""
    digest = sha256(b"flwr-kld model 1\n")
    for name, array in model.items():
        head = [name, array.dtype, list(array.shape), array.stype, len(array.data)]
        digest.update(f"{json_text(head)}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


@dataclass(frozen=True)
class NoiseShares(Model, what="the clients' noise", refused=QueryRefused):
    """Noise of which each client adds a share, which both sides compute alike."""

    # Honest survivors that the guarantee relies on; of more, what they add up to takes minutes
    n_min: Annotated[_Positive, Field(le=2**20)]

    def release(self, guarantee: Guarantee, counts: Allotment) -> ShareRelease:
        """Return the verified share law."""
        return calibrate_shares(guarantee, counts.moves(guarantee.protects), n_min=self.n_min)


@dataclass(frozen=True)
class AggregatorNoise(Model, what="the aggregators' noise", refused=QueryRefused):
    """Noise that an aggregator adds to the whole sum, or each of two."""

    # Public keys of the aggregators, hexadecimal. Of two, the first receives seeds, and the second
    # masked vectors.
    keys: Annotated[tuple[Key, ...], Field(min_length=1, max_length=2)]

    def __post_init__(self) -> None:
        if len(set(self.keys)) < len(self.keys):
            raise InvalidArgument("keys", "those of different aggregators", self.keys)


@dataclass(frozen=True)
class ChannelNoise(Model, what="each client's own noise", refused=QueryRefused):
    """Noise of a channel, by which each client alone privatises its label."""


Noise = NoiseShares | AggregatorNoise | ChannelNoise | None
"""Who adds noise before the server sees a number; None if nobody does."""


def trust_of(noise: Noise) -> str:
    """Return which of `TRUST_MODELS` adds this noise; "trusted" for none."""
    if noise is None:
        return "trusted"
    if isinstance(noise, NoiseShares):
        return "distributed"
    if isinstance(noise, ChannelNoise):
        return "local"
    return "trusted-aggregator" if len(noise.keys) == 1 else "two-aggregators"


@dataclass(frozen=True)
class RecordCounts(Model, what="the question for counts", refused=QueryRefused):
    """How many records have each symbol."""

    # How finely counts are released, and whether alike records are counted: by default in whole
    # counts, and not
    allotment: Allotment
    period: Period | None = None  # Of the records that are counted; None for all
    # Whether numbers are counted at grid points within their bins (`table.rounded`)
    rounded: bool = False


@dataclass(frozen=True)
class Night(Model, what="the night of a standing session", refused=QueryRefused):
    """Which night of which standing session a check is."""

    session: _Id  # Random id
    number: _Positive  # From 1; of the nights that clients are asked in, each once
    nights: Annotated[int, Strict(), Field(ge=1, le=MOST_NIGHTS)]  # Of the session
    moves: _Positive  # How often a record may come or go
    # Random marks of all nights that were asked for so far, this one's last. Who remembers a night
    # by another mark was asked for it by a server that has forgotten it since
    marks: Annotated[str, Field(pattern="^[0-9a-f]*$")]
    # Seconds since 1970, UTC, after which no night of the session is released
    until: Annotated[int, Strict(), Field(ge=0, le=_LATEST)]
    # The last night whose numbers the server has received, so that whoever adds noise can tell
    # whether it has forgotten one; 0 for none
    released: Number = 0

    def __post_init__(self) -> None:
        if not self.released < self.number <= self.nights:
            raise InvalidArgument(
                "number", "after the last night and within the session", self.number
            )
        if self.moves % 2:
            raise InvalidArgument("moves", "even", self.moves)
        if len(self.marks) != MARK * self.number:
            raise InvalidArgument("marks", "one for each night so far", self.marks)

    @property
    def history(self) -> int:
        """Bytes in which a client says which nights it has counted, bit n for night n."""
        return self.nights // 8 + 1

    @property
    def mark(self) -> str:
        """The mark of this night."""
        return self.marks[-MARK:]

    def follows(self, number: int, mark: str) -> bool:
        """Whether a night that somebody remembers is one of those so far."""
        return self.marks[MARK * (number - 1) : MARK * number] == mark

    @property
    def continual(self) -> Continual:
        """The mechanism of the session."""
        return stream_of(self.nights, self.moves)


@dataclass(frozen=True)
class Terms(Model, what="the terms of the check", version=VERSION, refused=QueryRefused, kept=True):
    """What is counted, for which check, under which claim, and whose noise keeps it."""

    check: _Id  # Random id of the check; replies repeat it
    domain: _Id  # Fingerprints of what records mean, and of what is counted of them
    plan: _Id
    # Cells of each column; a single column is a table of one
    cells: Annotated[
        list[_Positive],
        Field(min_length=1, max_length=MOST_COLUMNS),
        must(f"be at most {LONGEST} in all", lambda cells: sum(cells) <= LONGEST),
    ]
    wire: bytes  # The cell of each symbol, ``QueryPlan.wire``
    guarantee: Json[Guarantee]  # What the check claims to spend, and to protect
    asked: _Positive  # Clients in the cohort, as the server says
    # Seconds since 1970, UTC, after which nobody answers this question or releases anything of it
    until: Annotated[int, Strict(), Field(ge=0, le=_LATEST)]
    # Most records a client may count, a uniform sample of its own; 0 for no limit. Where whole
    # clients are protected, that of the guarantee
    most_records: Number = 0
    # What clients answer with; by default whole counts of all records
    asked_for: Json[RecordCounts | UnlistedLabels] = None  # type: ignore[assignment]
    # `model_fingerprint` of the arrays that are shown with them; `NO_MODEL` if none are
    model: Annotated[str, Field(pattern="^(none|[0-9a-f]{64})$")] = NO_MODEL
    noise: Json[Noise] = None  # Noise that is added before the server sees a number
    night: Json[Night | None] = None  # Of a standing session, whose cost is claimed once for all

    def __post_init__(self) -> None:
        if self.guarantee.most_records not in (0, self.most_records):
            raise InvalidArgument("most_records", "that of the whole clients", self.most_records)
        set_fields(self, asked_for=self.asked_for or RecordCounts(Allotment.even(self.columns)))
        if self.allotment.columns != self.columns:
            raise InvalidArgument(
                "allotment", "one number for each column of counts", self.allotment.columns
            )
        if self.trust == "two-aggregators" and self.allotment.alike:
            raise InvalidArgument(
                "allotment", "of counts alone, which two aggregators can check", "alike records"
            )
        if self.unlisted_labels is not None:
            self._fit_labels()
        if self.night is not None:
            self._fit_a_session()

    def _fit_labels(self) -> None:
        """Refuse a question for labels where nobody may see them, or no release shows any."""
        if self.trust not in ("trusted", "trusted-aggregator"):
            raise InvalidArgument(
                "noise", "of the server or of one aggregator, for labels", self.noise
            )
        if self.guarantee.protects != "record" or not self.guarantee.delta:
            raise InvalidArgument(
                "guarantee", "of records, with delta > 0, for labels", self.guarantee
            )

    def _fit_a_session(self) -> None:
        """Refuse what is no night of a session: all records are counted, and nothing else."""
        if any((self.most_records, self.unlisted_labels, self.period)) or self.model != NO_MODEL:
            raise InvalidArgument(
                "night", "of a check that counts all records, of no model", "another"
            )
        if self.guarantee.protects != "record" or not self.guarantee.delta:
            raise InvalidArgument(
                "guarantee", "of records, with delta > 0, for a session", self.guarantee
            )
        if isinstance(self.noise, NoiseShares) or self.trust == "local":
            raise InvalidArgument("noise", "central, for a session", self.noise)
        if self.allotment.alike:
            raise InvalidArgument("allotment", "of counts alone, for a session", "alike records")
        if self.rounded:  # a record would change with its coins, night by night
            raise InvalidArgument("rounded", "false, for a session", True)

    def require_in_time(self, now: float) -> None:
        """Refuse a question whose last moment is over, or years ahead."""
        over = min(self.until, self.last_release)
        if now > over:
            raise QueryRefused(
                f"TooLate: the last moment of this question was {now - over:.0f} s ago by this "
                "clock"
            )
        # Boxes that a server has kept are of no use to it for longer than that.
        if self.until > now + _OPEN * _DAY:
            raise QueryRefused(f"a question stays open for {_OPEN} days at most: lower timeout=")
        if self.last_release > now + MOST_NIGHTS * _DAY:
            raise QueryRefused(f"a session stays open for {MOST_NIGHTS} days at most")

    @property
    def last_release(self) -> int:
        """Until when what is answered now may be released: in a session, on a later night."""
        return self.until if self.night is None else self.night.until

    @cached_property
    def session(self) -> str:
        """SHA-256 (hex) of all that is the same on every night of a session; empty if of none."""
        if self.night is None:
            return ""
        first = replace(self.night, number=1, marks=MARK * "0", released=0)
        return replace(self, check=first.session, asked=1, until=0, night=first).fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of everything in them."""
        content = {
            name: sha256(value).hexdigest() if isinstance(value, bytes) else value
            for name, value in self.to_config().items()
        }
        text = json_text(content, sort_keys=True, separators=(",", ":"))
        return sha256(f"flwr-kld terms 1\0{text}".encode()).hexdigest()

    @property
    def aggregators(self) -> tuple[str, ...]:
        """Public keys of the aggregators, hexadecimal; none where there are none."""
        return self.noise.keys if isinstance(self.noise, AggregatorNoise) else ()

    @property
    def trust(self) -> str:
        """Which of `TRUST_MODELS` this is."""
        return trust_of(self.noise)

    @property
    def unlisted_labels(self) -> UnlistedLabels | None:
        """Column whose unlisted labels clients answer with, instead of counts."""
        return self.asked_for if isinstance(self.asked_for, UnlistedLabels) else None

    @property
    def allotment(self) -> Allotment:
        """How finely counts are released."""
        own = self.asked_for
        return own.allotment if isinstance(own, RecordCounts) else Allotment.even(1)

    @property
    def period(self) -> Period | None:
        """Period of the records that are counted; None for all."""
        return self.asked_for.period if isinstance(self.asked_for, RecordCounts) else None

    @property
    def rounded(self) -> bool:
        """Whether numbers are counted at grid points within their bins."""
        return isinstance(self.asked_for, RecordCounts) and self.asked_for.rounded

    @property
    def columns(self) -> int:
        """Symbols that a record has: 1, or of a table as many as columns."""
        return len(self.cells)

    @property
    def numbers(self) -> int:
        """Numbers that get noise."""
        return self.layout.length

    @property
    def counted(self) -> bool:
        """Whether clients add up the exact number of their records, too: where it is public."""
        return self.trust == "distributed" and self.layout.total_is_public(self.guarantee)

    @property
    def length(self) -> int:
        """Numbers of one client in a sum that nobody sees the parts of."""
        return self.numbers + self.counted

    @cached_property
    def layout(self) -> Layout:
        """What the numbers of a client are."""
        in_session = self.night is not None
        return Layout(tuple(self.cells), self.allotment, self.period is not None, in_session)

    def over(self, domain: Domain) -> Domain:
        """Return what is counted of the records of a domain; its own symbols, as a rule.

        Raises `QueryRefused` if it has no such column.
        """
        try:
            if self.unlisted_labels is not None:
                return self.unlisted_labels.over(domain)
            return rounded(domain) if self.rounded else domain
        except DomainError as error:
            raise QueryRefused(str(error)) from None

    def cell_of(self, counted: Domain) -> NDArray[np.int32]:
        """Return the cell of each symbol, as `cells_from_wire` does and with its errors."""
        return cells_from_wire(self.wire, counted, tuple(self.cells), self.plan)

    def share(self) -> ShareRelease | None:
        """Return the verified law of a client's share of the noise; None if it adds none.

        Raises `QueryRefused` if no share serves.
        """
        if not isinstance(self.noise, NoiseShares):
            return None
        try:
            return self.noise.release(self.guarantee, self.allotment)
        except ValueError as error:
            raise QueryRefused(f"no noise share serves these terms: {error}") from None

    def central(self) -> Release:
        """Return the verified release of an aggregator's noise; `QueryRefused` if there is none."""
        if not isinstance(self.noise, AggregatorNoise):
            raise QueryRefused("these terms name no aggregator")
        if self.night is not None:
            return continual_release(self.guarantee, self.night.continual, self.allotment)
        if self.unlisted_labels is not None:
            return selection_release(self.guarantee)
        try:
            return least_noise(self.guarantee, self.allotment.moves(self.guarantee.protects))
        except ValueError as error:
            raise QueryRefused(f"no noise serves these terms: {error}") from None
