"""A small SQLite file that several processes of a node write to, and that survives a power cut."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""


@contextmanager
def writing(path: Path, schema: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """Hold a file's write lock; commit to the disk, or leave no trace.

    Parameters
    ----------
    path : Path
        Made on first use, readable by its owner only.
    schema : Sequence[str]
        Statements that make what is not there yet.

    Raises
    ------
    sqlite3.Error, OSError
        If the file cannot be written; nothing of the block is kept then.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as db:
        _write_ahead(db)
        db.execute("PRAGMA synchronous = FULL")
        with db:
            db.execute("BEGIN IMMEDIATE")
            for statement in schema:
                db.execute(statement)
            yield db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch the journal mode; SQLite does not itself wait for others to do so."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return
