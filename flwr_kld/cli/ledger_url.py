"""The ledger that a command is given."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from flwr_kld.ledger import Ledger


def existing_ledger(url: str) -> Ledger:
    """Open a ledger that is there: a mistyped name must not become a new, empty one."""
    require_ledger(url)
    return Ledger(url)


def require_ledger(url: str) -> None:
    """Refuse a file that is not there; whether it is a ledger, its reader says."""
    file = sqlite_file(url)
    if file is not None and not file.is_file():
        raise ValueError(
            f"there is no ledger {file}: give --ledger, or set FLWR_KLD_LEDGER; flwr-kld budget "
            "--set EPSILON makes one"
        )


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite URL; None for any other."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError:  # `Ledger` explains it
        return None
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def absolute_url(url: str) -> str:
    """Return a database's URL with the absolute path of its file, if it is one of SQLite."""
    file = sqlite_file(url)
    return url if file is None else str(sa.make_url(url).set(database=str(file.absolute())))
