"""What whoever adds up keeps of a session: seeds of its noise, and each client's last answer.

A client that is silent for a night is carried forward, so that its records neither go nor come.
Everything is sealed under a key that lies elsewhere, and written down before anything is released.
Proof note: ``docs/proofs/standing.md``.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from flwr_kld.calibration.central import continual_release
from flwr_kld.codec.durable import Schema, writing
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.law import BitSource, NoiseTable
from flwr_kld.kernel.vector import Held, NightNoise, Private
from flwr_kld.messages.terms import Night, Terms

logger = logging.getLogger("flwr_kld")

_Answers = Iterator[tuple[Sequence[Any], Held[list[bytes]]]]
"""Names of some clients, and what each answered."""
NAME = 16
"""Bytes by which a client is known in a session."""
_SEED, _NONCE = 32, 12
_AT_ONCE = 2**8
"""Parts that are narrowed together."""
_SCHEMA = Schema(
    1,
    [
        """CREATE TABLE sessions (session TEXT PRIMARY KEY, night INTEGER NOT NULL,
    seeds BLOB NOT NULL, names BLOB NOT NULL, answers BLOB NOT NULL)"""
    ],
    page=2**16,
)


class SessionBook(Private):
    """A file of sessions.

    Parameters
    ----------
    file : Path
        Made on first use.
    key : bytes
        32 secret bytes, which are not in the file.
    """

    __slots__ = ("_file", "_key")

    def __init__(self, file: Path, key: bytes) -> None:
        self._file, self._key = file, ChaCha20Poly1305(key)

    def open(self, terms: Terms, size: int) -> NightAnswers:
        """Take up answers of `size` bytes for a night; refused unless it is a later one."""
        with self._writing() as db:
            self._kept(db, terms, "seeds", _SEED)
        return NightAnswers(self, terms, size)

    def last(self, terms: Terms, size: int, but: Set[bytes]) -> dict[bytes, bytes]:
        """Return the last answers, of `size` bytes, of all clients but some, by name."""
        with self._writing() as db:
            names = self._kept(db, terms, "names", NAME)
            if but >= set(names):
                return {}
            answers = self._kept(db, terms, "answers", size)
        last = dict(zip(names, answers, strict=True))
        return {client: last[client] for client in sorted(last.keys() - but)}

    def claim(self, terms: Terms, answers: dict[bytes, bytes], bits: BitSource) -> NightNoise:
        """Write down that a night is used, with what seed, and what is carried into the next."""
        night, session = _night(terms), terms.session
        answers = {} if night.number == night.nights else answers
        with self._writing() as db:
            kept = self._kept(db, terms, "seeds", _SEED)  # again: another process may be first
            law, *before = kept or [_law_of(terms)]
            if law != _law_of(terms):
                raise _unusable(self._file, "seeds make other noise here")
            fresh = bits.words(_SEED // 8).tobytes()
            sealed = [
                self._sealed(_about(what, session, night.number), joined)
                for what, joined in (
                    ("seeds", [law, *before, fresh]),
                    ("names", [*answers]),
                    ("answers", [*answers.values()]),
                )
            ]
            db.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)",
                (session, night.number, *sealed),
            )
        return NightNoise(night.continual, [*before, fresh], private=bits.private)

    def _kept(self, db: sqlite3.Connection, terms: Terms, what: str, size: int) -> list[bytes]:
        """Open what is kept of the nights before this one, which is a later one, in parts."""
        night, session = _night(terms), terms.session
        read = f"SELECT night, {what} FROM sessions WHERE session = ?"
        last, box = db.execute(read, (session,)).fetchone() or (0, b"")
        if night.released > last:
            raise QueryRefused(
                f"SessionForgotten: night {night.released} of this session was released, and what "
                f"is kept here ends with night {last}: begin another session"
            )
        if night.number <= last:
            raise QueryRefused(
                f"AnsweredAlready: night {last} of this session was added up here, and "
                f"night {night.number} is not after it"
            )
        if not box:
            return []
        try:
            opened = self._key.decrypt(box[:_NONCE], box[_NONCE:], _about(what, session, last))
        except InvalidTag:
            why = f"{what} were sealed under another key, or for another night"
            raise _unusable(self._file, why) from None
        joined = np.frombuffer(opened[1:], f"<u{opened[0]}").astype("<u4").tobytes()
        return [joined[i : i + size] for i in range(0, len(joined), size)]

    def _sealed(self, about: bytes, parts: Sequence[bytes]) -> bytes:
        """Seal parts, each of which is a number of words of four bytes."""
        some = list[NDArray[np.unsignedinteger]]()
        for first in range(0, len(parts), _AT_ONCE):
            words = np.frombuffer(b"".join(parts[first : first + _AT_ONCE]), "<u4")
            some.append(words.astype(np.min_scalar_type(words.max())))  # most counts are small
        width = max((words.itemsize for words in some), default=1)
        narrow = [words.astype(f"<u{width}", copy=False).data for words in some]
        nonce, content = os.urandom(_NONCE), b"".join([bytes([width]), *narrow])
        return nonce + self._key.encrypt(nonce, content, about)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with writing(self._file, _SCHEMA) as db:
                yield db
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self._file, str(error)) from None


class NightAnswers(Private):
    """What clients answer in one night, and the last answers of those that are silent."""

    __slots__ = ("_book", "_came", "_size", "_terms", "carried")

    def __init__(self, book: SessionBook, terms: Terms, size: int) -> None:
        self._book, self._terms, self._size = book, terms, size
        self._came: dict[bytes, bytes] = {}
        self.carried = 0
        """Number of clients whose last answer counts. Public."""

    def came(self, client: bytes, answer: bytes) -> bool:
        """Take an answer; False if it has another length, or the client has answered tonight."""
        if len(answer) != self._size or client in self._came:
            return False
        self._came[client] = answer
        return True

    def silent(self) -> dict[bytes, bytes]:
        """Return the last answers of those that have not answered tonight, by name."""
        silent = self._book.last(self._terms, self._size, self._came.keys())
        self._came |= silent
        self.carried = len(silent)
        return silent

    def read(self, answers: _Answers) -> _Answers:
        """Yield rows without the names in front; then those of silent clients."""
        for senders, held in answers:
            yield senders, Held([self._row(answer) for answer in held.into(list)])
        last = Held(list(self.silent().values()))
        yield [f"silent client {i}" for i in range(self.carried)], last

    def _row(self, answer: bytes) -> bytes:
        """Return the numbers of an answer; none, which no sum takes, of a second one."""
        client, row = answer[:NAME], answer[NAME:]
        return row if self.came(client, row) else b""

    def claim(self, bits: BitSource) -> NightNoise:
        """Write down that the night is used, and with what; return its noise."""
        return self._book.claim(self._terms, self._came, bits)


def _about(what: str, session: str, night: int) -> bytes:
    """Return what a box is bound to: none is taken for that of another night."""
    return f"{what} {session} {night}".encode()


def _law_of(terms: Terms) -> bytes:
    """Return a digest of the table that seeds become noise by: 32 bytes, in front of the seeds."""
    night, allotment = _night(terms), terms.allotment
    if allotment is None:
        raise QueryRefused("a session counts records")
    return _digest(continual_release(terms.guarantee, night.continual, allotment).table)


@lru_cache(maxsize=8)
def _digest(table: NoiseTable) -> bytes:
    weights = b"".join(weight.to_bytes(17, "little") for weight in table.weights)
    return sha256(weights).digest()


def _night(terms: Terms) -> Night:
    if terms.night is None:
        raise QueryRefused("these terms are of no session")
    return terms.night


def _unusable(file: Path, why: str) -> QueryRefused:
    logger.error("what is kept of sessions in %s cannot be used: %s", file, why)
    return QueryRefused("what is kept of sessions cannot be used: the operator's log says why")
