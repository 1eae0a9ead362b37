"""Why a check may not start. Nothing has been asked when one of these is raised."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr_kld.ledger.entry import Entry


class LedgerError(RuntimeError):
    """The ledger does not let a check start, or cannot keep its books."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written; says which and why."""


def damaged(what: str) -> LedgerUnavailable:
    """Say that a row is not what was written."""
    return LedgerUnavailable(f"{what} in the ledger is damaged: restore it from a backup")


class BudgetExhausted(LedgerError):
    """A check does not fit into the budget of the people it would ask.

    Parameters
    ----------
    message : str
        What is short.
    left : float
        Epsilon that the most-charged of them has left, in nats.
    frees_at : datetime or None
        UTC; from when on the same check fits if nothing else is spent. None if it never does.
    """

    def __init__(self, message: str, *, left: float, frees_at: datetime | None) -> None:
        super().__init__(message)
        self.left = left
        self.frees_at = frees_at


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
