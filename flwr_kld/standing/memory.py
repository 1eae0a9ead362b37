"""A client's memory of the standing sessions that it takes part in: one SQLite file of a node.

What a night counts is on the disk before anything is answered. A node that is killed finds its
records as they were before that night, or after it; either way the night is over for it.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flwr_kld.codec.durable import Schema, writing
from flwr_kld.domain.base import Symbols
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import moment
from flwr_kld.kernel.vector import Held
from flwr_kld.messages.terms import Terms
from flwr_kld.query.selection import salted
from flwr_kld.standing.lives import Lives

_TOKEN, _SECRET = 16, 32
"""Bytes of what names a client to whoever adds up, and of what its records' ids are salted with."""
_FORGOTTEN = 400 * 24 * 60 * 60
"""Seconds after its last night in which a session is forgotten."""
SCHEMA = Schema(
    1,
    [
        """CREATE TABLE sessions (
    session TEXT NOT NULL, account TEXT NOT NULL, fingerprint TEXT NOT NULL, night INTEGER NOT NULL,
    time INTEGER NOT NULL, token BLOB NOT NULL, secret BLOB NOT NULL,
    ids BLOB, symbols BLOB, changes BLOB, gone BLOB, PRIMARY KEY (session, account))""",
    ],
)
_READ = "SELECT ids, symbols, changes, gone FROM sessions WHERE session = ? AND account = ?"
_WRITE = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Memory:
    """The file, while a node's clients count a night: none of it is written until all of it is.

    Parameters
    ----------
    db : sqlite3.Connection
        Held for writing.
    now : float
        Seconds since 1970.
    """

    def __init__(self, db: sqlite3.Connection, now: float) -> None:
        self._db, self._now = db, int(moment("the clock", now))
        db.execute(
            "UPDATE sessions SET ids = NULL, symbols = NULL, changes = NULL, gone = NULL "
            "WHERE time < ? AND ids IS NOT NULL",
            (self._now - _FORGOTTEN,),
        )

    def night(
        self,
        terms: Terms,
        account: str,
        ids: Held[NDArray[np.uint64]],
        symbols: Held[Symbols],
        answered: int = 0,
    ) -> tuple[bytes, Held[Symbols]]:
        """Remember a night, and return a client's token and what it counts.

        Parameters
        ----------
        terms : Terms
            What is asked, on a night of a session.
        account : str
            Which of the node's clients is asked.
        ids, symbols : Held
            Of its records tonight, shapes [records] and [records, columns].
        answered : int
            Last night that the client is known to have answered from elsewhere; 0 for none.

        Raises
        ------
        QueryRefused
            If the night is over, the session is another one, or what it counted is not known.
        """
        if (night := terms.night) is None:
            raise QueryRefused("these terms are of no night")
        key, fingerprint = (night.session, account), terms.session
        known = self._db.execute(
            "SELECT fingerprint, night, token, secret, ids IS NULL FROM sessions "
            "WHERE session = ? AND account = ?",
            key,
        ).fetchone()
        if known is None:
            known = (fingerprint, 0, *map(secrets.token_bytes, (_TOKEN, _SECRET)), False)
        same, last, token, secret, forgotten = known
        if same != fingerprint:
            raise QueryRefused("a session asks the same on all its nights: begin another one")
        if night.number <= last:
            raise QueryRefused(
                f"this client has counted night {last} of the session, and nights only go on"
            )
        if last < answered or forgotten:
            raise QueryRefused(
                "this client has lost its memory of the session, and is left out of it: records "
                "that it counted before would come again"
            )
        lives = self._lives(key, terms.columns).after(
            Held(ids.into(partial(salted, secret=secret))), symbols, night.moves
        )
        # Nothing is counted after the last night.
        kept = lives if night.number < night.nights else Lives(terms.columns)
        about = (*key, fingerprint, night.number, self._now, token, secret)
        Held(kept.stored().into(about.__add__)).into(partial(self._db.execute, _WRITE))
        return token, lives.counted()

    def _lives(self, key: tuple[str, str], columns: int) -> Lives:
        """Read what a client counted on its last night; nothing before its first."""
        stored = Held(self._db.execute(_READ, key).fetchone())
        if stored.into(lambda row: row is None):
            return Lives(columns)
        return Lives.of_stored(stored, columns)


@contextmanager
def remembering(path: Path, now: float) -> Iterator[Memory]:
    """Hold a node's memory, and commit it to the disk, or leave no trace."""
    with writing(path, SCHEMA) as db:
        yield Memory(db, now)
