"""Entries of the history: what a check asked, and how it ended. No key asks twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from flwr_kld.common.errors import (
    BudgetExhausted,
    CheckFailed,
    LedgerError,
    LedgerUnavailable,
    NobodyAnswered,
    damaged,
)
from flwr_kld.kernel.arguments import choice, set_fields
from flwr_kld.ledger.budget import Ranked
from flwr_kld.ledger.cost import Cost

Stage = Literal["reserved", "settled", "failed"]


class Kind(StrEnum):
    """What an entry of the ledger is about."""

    CHECK = "check"
    """A check of drift."""
    ROUND = "round"
    """A round of a predictor."""
    STATISTICS = "statistics"
    """What clients' data look like, and a reference made of it."""
    DISCOVERY = "discovery"
    """A question for labels that nobody listed."""
    DRAWS = "draws"
    """Draws from a density that was fitted to private data."""
    SESSION = "session"
    """A standing session: what all its nights cost together, as of the last one."""
    TRAINING = "training"
    """A round of training."""

    @property
    def ranked(self) -> Ranked:
        """For whom a budget may keep something."""
        return "training" if self is Kind.TRAINING else "checks"


class FailureKind(StrEnum):
    """Why an entry has no report."""

    COHORT = "cohort"
    """There were too few clients to ask, or it could not begin; nobody was asked."""
    BUDGET = "budget"
    """It did not fit into the budget of those it would ask; nobody was asked."""
    REFUSED = "refused"
    """No client sent a number: all that were asked refused, or a sum ended before any did."""
    UNANSWERED = "unanswered"
    """Clients were asked, and what they answered gave no number."""
    ERROR = "error"
    """An unforeseen error."""

    @property
    def spends(self) -> bool:
        """Whether somebody may have answered. Elsewhere nothing is spent, and the key may run."""
        return self in (FailureKind.UNANSWERED, FailureKind.ERROR)


@dataclass(frozen=True)
class Failure:
    """Why an entry has no report."""

    kind: FailureKind  # Kind of failure, for programs
    words: str  # What happened, for human readers; public

    def __post_init__(self) -> None:
        set_fields(self, kind=choice("kind", self.kind, FailureKind))

    @classmethod
    def unasked(cls, error: Exception) -> Failure:
        """Say what ended a check before it asked; a mistake in its settings in its own words."""
        if isinstance(error, BudgetExhausted):
            return cls(FailureKind.BUDGET, str(error))
        public = isinstance(error, CheckFailed | ValueError)
        return cls(FailureKind.COHORT, str(error) if public else type(error).__name__)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Say what ended a check that had asked, if it is in public words; else of which type."""
        if isinstance(error, CheckFailed):
            refused = isinstance(error, NobodyAnswered)
            return cls(FailureKind.REFUSED if refused else FailureKind.UNANSWERED, str(error))
        # A database that is not there may be told with its address and the name of its user.
        own = isinstance(error, LedgerError) and not isinstance(error, LedgerUnavailable)
        return cls(FailureKind.ERROR, str(error) if own else type(error).__name__)


@dataclass(frozen=True)
class ReleaseCost:
    """The release of a check."""

    asked: Cost  # What was reserved
    delivered: Cost | None  # What was settled; None for as much as was asked
    clients: int  # How many it asked


@dataclass(frozen=True)
class Entry:
    """What the ledger knows of one key."""

    number: int  # From 1, in the order of reservation
    population: str  # Whose budget; the idempotency key
    kind: Kind  # What it is of
    key: str
    started: datetime  # UTC, by the ledger's clock; `ended` is None for what was never settled
    ended: datetime | None
    # Reserved: it runs, or was cut off. Failed: no number came out; it may have spent (`refused`).
    state: Stage
    stored_report: str | None  # JSON of ``Report.to_dict()``
    failure: Failure | None  # Why it failed
    release: ReleaseCost | None  # What it cost; None if nobody answered, or its session paid

    @cached_property
    def report(self) -> dict[str, Any] | None:
        """What ``Report.to_dict()`` returned; read when it is first asked for."""
        return None if self.stored_report is None else read_json(self.stored_report, "a report")

    @property
    def refused(self) -> bool:
        """Whether it ended before anybody answered, so that its key may run again."""
        return self.failure is not None and not self.failure.kind.spends


@dataclass(frozen=True)
class Remembered:
    """A named value."""

    name: str  # Of the monitor, say ``"default/alarm"``
    value: Any  # What JSON can hold
    # How often it was written before; 0 for one that is new. Whoever writes must have read the
    # version that is there.
    version: int = 0


def read_json(text: str, what: str) -> Any:
    """Read a JSON column; NaN and infinities, which JSON does not have, become null."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise damaged(what) from None


def utc(seconds: int) -> datetime:
    """Return a time of the ledger's clock."""
    return datetime.fromtimestamp(seconds, UTC)


class AlreadyChecked(LedgerError):
    """A key has run to its end, and spent; `entry` holds its report."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(
            f"check {entry.key!r} was started on {entry.started:%Y-%m-%d %H:%M} UTC and is "
            f"{entry.state}: it does not run twice"
        )
        self.entry = entry


class CheckUnfinished(LedgerError):
    """A key was reserved and never settled: it counts as spent, and never runs again."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(
            f"check {entry.key!r} was started on {entry.started:%Y-%m-%d %H:%M} UTC and has not "
            "ended: it runs elsewhere or was cut off. Its budget is spent; the next check can run"
        )
        self.entry = entry
