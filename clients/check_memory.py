"""Which checks were answered: none is answered twice."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from flwr.app import ConfigRecord, Context

from flwr_kld.errors import QueryRefused

logger = logging.getLogger("flwr_kld")


def use_once(context: Context, place: str, check: str, file: Path | None = None) -> None:
    """Write a check's id down, before anything about it is given away.

    Parameters
    ----------
    context : Context
        Whose state remembers ids for the run.
    place : str
        Where in that state.
    check : str
        Random id.
    file : Path, optional
        SQLite file that remembers them for good, also if the node is started anew.

    Raises
    ------
    QueryRefused
        If it was written down before, or cannot be.
    """
    used = context.state.get(place)
    used = used if isinstance(used, ConfigRecord) else ConfigRecord()
    if check in used:
        raise QueryRefused(_TWICE)
    if file is not None:
        _write_down(file, check)
    used[check] = True
    context.state[place] = used


def _write_down(file: Path, check: str) -> None:
    try:
        with closing(sqlite3.connect(file, timeout=30)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS checks (id TEXT PRIMARY KEY)")
            database.execute("INSERT INTO checks VALUES (?)", (check,))
    except sqlite3.IntegrityError:
        raise QueryRefused(_TWICE) from None
    except sqlite3.Error as error:
        logger.error("the memory of checks in %s cannot be used: %s", file, error)
        raise QueryRefused("the memory of checks cannot be used: its operator's log says") from None


_TWICE = "AnsweredAlready: a check is answered once; ask anew, with a new check"
