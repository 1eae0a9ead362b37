"""Why a check may not start. Nothing has been asked when one of these is raised."""

from __future__ import annotations

from datetime import datetime


class LedgerError(RuntimeError):
    """The ledger refuses to start a check, or cannot be read or written."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written; says which and why."""


class NoBudget(LedgerError):
    """A population has no budget, so that nothing may be spent."""

    def __init__(self, population: str) -> None:
        super().__init__(
            f"population {population!r} has no budget: set one with "
            f"Ledger.set_budget(Budget(…, population={population!r}))"
        )


def damaged(what: str) -> LedgerUnavailable:
    """Say that a row is not what was written."""
    return LedgerUnavailable(f"{what} in the ledger is damaged: restore it from a backup")


class BudgetExhausted(LedgerError):
    """A check does not fit into the budget of the people it would ask.

    Parameters
    ----------
    message : str
        Says what is short.
    left : float
        Epsilon that the most-charged of them has left, in nats.
    frees_at : datetime or None
        UTC; from when on the same check fits if nothing else is spent. None if it never does.
    """

    def __init__(self, message: str, *, left: float, frees_at: datetime | None) -> None:
        super().__init__(message)
        self.left = left
        self.frees_at = frees_at
