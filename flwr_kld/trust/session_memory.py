"""A node's memory of the standing sessions that its clients answer: one SQLite file.

What a night counts is on the disk before anything is answered. A node that is killed finds its
records as they were before that night, or after it; either way the night is over for it.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from flwr_kld.common.canonical_bytes import number
from flwr_kld.common.durable_files import Schema, writing
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.arguments import moment
from flwr_kld.kernel.vector import Held
from flwr_kld.table.base import Symbols
from flwr_kld.trust.session_records import Ids, RecordLifetimes
from flwr_kld.trust.terms import Terms

_NAME = 16
"""Bytes of what names a client to whoever adds up."""
_UNKNOWN = 1, "", ""
"""What is kept of a client that has counted no night."""
_FORGOTTEN = 400 * 24 * 60 * 60
"""Seconds after its last night in which a session is forgotten."""
SCHEMA = Schema(
    2,
    [
        """CREATE TABLE sessions (
    session TEXT NOT NULL, node TEXT NOT NULL, fingerprint TEXT NOT NULL, time INTEGER NOT NULL,
    clients TEXT NOT NULL,
    records BLOB, ids BLOB, symbols BLOB, changes BLOB, records_gone BLOB, gone BLOB,
    PRIMARY KEY (session, node)) WITHOUT ROWID""",
    ],
    page=2**16,
    rows="SELECT * FROM sessions ORDER BY session, node",
)
_PRIVATE = "records, ids, symbols, changes, records_gone, gone"
_WRITE = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Memory:
    """What a node keeps of a session, while its clients count a night: written all at once.

    Raises `QueryRefused` if the session asks something else than before.
    """

    def __init__(self, db: sqlite3.Connection, terms: Terms, node: str, now: float) -> None:
        # `db` is held for writing; `node` is which of the machine's nodes is asked.
        if terms.night is None:
            raise QueryRefused("these terms are of no night")
        self._db, self._terms, self._night = db, terms, terms.night
        self._key = terms.night.session, node
        # A clock that runs backwards stands still: once set right, it would forget what it wrote.
        (last,) = db.execute("SELECT max(time) FROM sessions").fetchone()
        self._now = max(int(moment("the clock", now)), last or 0)
        unknown = ", ".join(f"{name} = NULL" for name in _PRIVATE.split(", "))
        db.execute(
            f"UPDATE sessions SET {unknown} WHERE time < ? AND session != ? AND ids IS NOT NULL",
            (self._now - _FORGOTTEN, terms.night.session),
        )
        row = self._read("fingerprint, clients, ids IS NULL").into(tuple) or (
            terms.session, "[]", False,
        )  # fmt: skip
        fingerprint, clients, self._forgotten = row
        if fingerprint != terms.session:
            raise QueryRefused("a session asks the same on all its nights: begin another one")
        # Nights that each client has counted (bit n for night n, bit 0 for having joined), the mark
        # of the last one, and its name, in the order of their numbers.
        self._clients = {
            client: (counted, mark, name) for client, counted, mark, name in json.loads(clients)
        }
        self.other_night = 0
        """Last night that a client was refused for, as it does not lead to this one. Public."""

    def refusal(self, client: int, answered: int) -> str | None:
        """Say why a client may not count this night, if it may not.

        It is known from elsewhere to have `answered` a last night, 0 for none.
        """
        counted, mark, _ = self._clients.get(client, _UNKNOWN)
        last = counted.bit_length() - 1
        if last and not self._night.follows(last, mark):
            self.other_night = max(self.other_night, last)
            return (
                f"this client has counted night {last} of the session, which does not lead to "
                "the one that is asked for"
            )
        if self._night.number <= last:
            return f"this client has counted night {last} of the session, and nights only go on"
        if last < answered or self._forgotten:
            if self._night.number <= answered:
                self.other_night = max(self.other_night, answered)
            return (
                "this client has lost its memory of the session, and is left out of it: records "
                "that it counted before would come again"
            )
        return None

    def count(
        self, clients: Sequence[int], ids: Held[list[Ids]], symbols: Held[list[Symbols]]
    ) -> tuple[list[bytes], Held[list[Symbols]], Held[list[int]]]:
        """Remember the night of clients, none refused; return tokens and what each of them counts.

        A token is a client's name, and the nights that it has counted. Last come the numbers of its
        records that are frozen as what they no longer are.

        Ids and symbols are of each one's records, shapes [records] and [records, columns].
        """
        columns, before = self._terms.columns, len(self._clients)
        lifetimes = RecordLifetimes(columns)
        if before:
            lifetimes = RecordLifetimes.of_stored(self._read(_PRIVATE), before, columns)
        for client in clients:
            counted, _, name = self._clients.get(client, _UNKNOWN)
            counted |= 1 << self._night.number
            self._clients[client] = counted, self._night.mark, name or secrets.token_hex(_NAME)
        places = {client: place for place, client in enumerate(self._clients)}
        counting = [places[client] for client in clients]
        lifetimes = lifetimes.after(counting, ids, symbols, self._night.moves)
        over = self._night.number == self._night.nights  # nothing is counted after the last night
        stored = (lifetimes.without(counting) if over else lifetimes).stored(len(places))
        about = json.dumps([[client, *known] for client, known in self._clients.items()])
        row = (*self._key, self._terms.session, self._now, about)
        Held(stored.into(row.__add__)).into(partial(self._db.execute, _WRITE))
        about_each = [self._clients[client] for client in clients]
        tokens = [
            bytes.fromhex(name) + number(counted, self._night.history)
            for counted, _, name in about_each
        ]
        return tokens, lifetimes.counted(counting), lifetimes.frozen(counting, self._night.moves)

    def _read(self, what: str) -> Held[Any]:
        """Read what is kept of the session; an empty row if nothing is."""
        read = f"SELECT {what} FROM sessions WHERE session = ? AND node = ?"
        return Held(self._db.execute(read, self._key).fetchone() or ())


@contextmanager
def remembering(path: Path, terms: Terms, node: str, now: float) -> Iterator[Memory]:
    """Hold a node's memory of a session, and commit it to the disk, or leave no trace."""
    with writing(path, SCHEMA) as db:
        yield Memory(db, terms, node, now)
