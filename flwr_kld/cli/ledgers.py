"""Ledgers as the command line reads them."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from flwr_kld.accounting import Ledger

DEFAULT_LEDGER = "sqlite:///drift.db"
DEFAULT_POPULATION = "default"


def existing_ledger(url: str) -> Ledger:
    """Open a ledger that is there: a mistyped name must not become a new, empty one."""
    require_ledger(url)
    return Ledger(url)


def require_ledger(url: str) -> None:
    """Refuse a file that is not there; whether it is a ledger, its reader says."""
    file = _sqlite_file(url)
    if file is not None and not file.is_file():
        raise ValueError(
            f"there is no ledger {file}: give --ledger, or set FLWR_KLD_LEDGER; flwr-kld budget "
            "--set EPSILON makes one"
        )


def no_budget(words: str) -> str:
    """Reword a `NoBudget` for those who type commands."""
    what = words.partition(": set one")[0]
    same = "the same --ledger and --population"
    return f"{what}: set one with flwr-kld budget --set EPSILON and {same}"


_MENDS = {
    "is damaged": "restore it from a backup, or give another --ledger",
    "not a database": "restore it from a backup, or give another --ledger",
    "malformed": "restore it from a backup, or give another --ledger",
    "unable to open": "make its folder, writable by you, or give another --ledger",
    "No such file": "make its folder, or give another --ledger",
    "Is a directory": "name a file in it with --ledger",
    "Permission denied": "run this as the user who owns it, or give another --ledger",
    "readonly": "run this as the user who owns it, or give another --ledger",
    "full": "free space on its disk, and run the same command again",
    "No space": "free space on its disk, and run the same command again",
    "locked": "another process is writing to it: run the same command again",
    "connect": "start the database server, or correct the URL of --ledger",
}


def unavailable(words: str) -> str:
    """Say what to do, too, about a ledger that cannot be used."""
    mends = [mend for sign, mend in _MENDS.items() if sign in words]
    return f"{words}; next: {mends[0]}" if mends else words


def _sqlite_file(url: str) -> Path | None:
    try:
        parsed = sa.make_url(url)
    except ArgumentError:  # `Ledger` explains it
        return None
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)
