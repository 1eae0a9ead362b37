"""One line of the history: a check, or a training that was imported. No key runs twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from flwr_kld.accounting.cost import Cost
from flwr_kld.accounting.errors import LedgerError

State = Literal["reserved", "settled", "failed", "abandoned"]
Purpose = Literal["check", "training"]


@dataclass(frozen=True)
class Release:
    """One release of a check.

    Parameters
    ----------
    asked : Cost
        What was reserved.
    delivered : Cost or None
        What was settled; None for as much as was asked.
    family : str
        Of parts: ``"clients"``, ``"everyone"``, or one hash's buckets.
    parts : int
        How many parts it touches.
    """

    asked: Cost
    delivered: Cost | None
    family: str
    parts: int


@dataclass(frozen=True)
class Entry:
    """What the ledger knows of one key.

    Parameters
    ----------
    number : int
        From 1, in the order of reservation.
    population, key : str
        Whose budget; the idempotency key.
    purpose : {"check", "training"}
        Training is what was imported from Flower's accountant.
    started, ended : datetime
        UTC, by the ledger's clock; `ended` is None for what was never settled.
    state : {"reserved", "settled", "failed", "abandoned"}
        Reserved: it runs, or was cut off. Failed: asked, and no number came out; it has spent.
        Abandoned: given up before anything was asked; it has spent nothing.
    report : dict or None
        ``Report.to_dict()``.
    note : str or None
        Why it failed or was abandoned.
    releases : tuple[Release, ...]
        What it cost.
    """

    number: int
    population: str
    purpose: Purpose
    key: str
    started: datetime
    ended: datetime | None
    state: State
    report: dict[str, Any] | None
    note: str | None
    releases: tuple[Release, ...]


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
    """A key was reserved and never settled: it runs elsewhere, or was cut off.

    What it reserved counts as spent. It never runs again; the next key does.
    """

    def __init__(self, entry: Entry) -> None:
        super().__init__(
            f"check {entry.key!r} was started on {entry.started:%Y-%m-%d %H:%M} UTC and has not "
            "ended: it runs elsewhere or was cut off. Its budget is spent; the next check can run"
        )
        self.entry = entry
