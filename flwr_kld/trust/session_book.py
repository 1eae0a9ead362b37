"""A session's book, of whoever adds up: seeds of its noise, and each client's last answer.

A client that is silent for a night is carried forward, so that its records neither go nor come.
Everything is sealed under a key that lies elsewhere, and written down before anything is released.
Proof note: ``docs/proofs/standing.md``.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from flwr_kld.common.durable_files import Schema, writing
from flwr_kld.common.errors import QueryRefused, SessionMismatch
from flwr_kld.kernel.law import BitSource, NoiseTable
from flwr_kld.kernel.vector import Held, NightNoise, Private
from flwr_kld.trust.calibration import continual_release
from flwr_kld.trust.terms import Night, Terms

logger = logging.getLogger("flwr_kld")

_Answers = Iterator[tuple[Sequence[Any], Held[list[bytes]]]]
"""Names of some clients, and what each answered."""
NAME = 16
"""Bytes by which a client is known in a session; of a digest of its sender, too."""
_LAST = 4
"""Bytes of the last night of which a client's answer was taken."""
_SEED, _NONCE = 32, 12
_AT_ONCE = 2**24
"""Bytes that are sealed together: SQLite takes a thousand million at most."""
_PLACE = struct.Struct("<II")
_SCHEMA = Schema(
    5,
    [
        """CREATE TABLE sessions (
    session TEXT PRIMARY KEY, night INTEGER NOT NULL, mark TEXT NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE boxes (session TEXT NOT NULL, what TEXT NOT NULL, part INTEGER NOT NULL,
    box BLOB NOT NULL, PRIMARY KEY (session, what, part))""",
    ],
    page=2**16,
    rows="SELECT * FROM sessions ORDER BY session",  # boxes are sealed
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
            known = self._kept(db, terms, "names", 2 * NAME + _LAST)
            replaced = self._kept(db, terms, "replaced", NAME)
        about = {both[:NAME]: both[NAME:] for both in known}
        return NightAnswers(self, terms, size, about, replaced)

    def last(self, terms: Terms, size: int) -> list[bytes]:
        """Return the last answers, of `size` bytes, of all clients that `open` found."""
        with self._writing() as db:
            return self._kept(db, terms, "answers", size)

    def claim(
        self,
        terms: Terms,
        answers: Mapping[bytes, bytes],
        about: Mapping[bytes, bytes],
        replaced: Iterable[bytes],
        bits: BitSource,
    ) -> NightNoise:
        """Write down that a night is used, with what seed, and what is carried into the next.

        Refused after the session's last moment.
        """
        terms.require_in_time(time.time())
        night, session = _night(terms), terms.session
        over = night.number == night.nights
        with self._writing() as db:
            kept = self._kept(db, terms, "seeds", _SEED)  # again: another process may be first
            law, *before = kept or [_law_of(terms)]
            if law != _law_of(terms):
                raise _unusable(self._file, "seeds make other noise here")
            fresh = bits.words(_SEED // 8).tobytes()
            row = session, night.number, night.mark
            db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", row)
            db.execute("DELETE FROM boxes WHERE session = ?", (session,))
            for what, kept in (
                # Seeds with what was published are the counts: none outlasts the session.
                ("seeds", [law] if over else [law, *before, fresh]),
                ("names", [] if over else [client + about[client] for client in answers]),
                ("replaced", [] if over else [*replaced]),
                ("answers", [] if over else [*answers.values()]),
            ):
                sealed = self._sealed(_about(what, session, night.number), kept)
                rows = ((session, what, part, box) for part, box in enumerate(sealed))
                db.executemany("INSERT INTO boxes VALUES (?, ?, ?, ?)", rows)
        return NightNoise(night.continual, [*before, fresh], private=bits.private)

    def _kept(self, db: sqlite3.Connection, terms: Terms, what: str, size: int) -> list[bytes]:
        """Open what is kept of the nights before this one, which is a later one, in parts."""
        night, session = _night(terms), terms.session
        read = "SELECT night, mark FROM sessions WHERE session = ?"
        last, mark = db.execute(read, (session,)).fetchone() or (0, "")
        if night.released > last:
            why = (
                f"SessionForgotten: night {night.released} was released, and what is kept here "
                f"ends with night {last}"
            )
            raise SessionMismatch(why, night.released)
        if last and not night.follows(last, mark):
            why = (
                f"SessionForgotten: night {last} was added up here, and does not lead to the one "
                "that is asked for"
            )
            raise SessionMismatch(why, last)
        if night.number <= last:
            raise QueryRefused(
                f"AnsweredAlready: night {last} of this session was added up here, and "
                f"night {night.number} is not after it"
            )
        if not last:
            return []
        read = "SELECT box FROM boxes WHERE session = ? AND what = ? ORDER BY part"
        boxes = [box for (box,) in db.execute(read, (session, what))]
        about, parts = _about(what, session, last), list[bytes]()
        try:
            for place, box in enumerate(boxes or [b""], start=1):
                bound = about + _PLACE.pack(place, len(boxes))
                opened = self._key.decrypt(box[:_NONCE], box[_NONCE:], bound)
                joined = np.frombuffer(opened[1:], f"<u{opened[0]}").astype("<u4").tobytes()
                parts += [joined[i : i + size] for i in range(0, len(joined), size)]
        except (InvalidTag, ValueError):
            why = f"{what} were sealed under another key, or for another night"
            raise _unusable(self._file, why) from None
        return parts

    def _sealed(self, about: bytes, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Seal parts, each of which is a number of words of four bytes, in one box or more."""
        each = max(_AT_ONCE // len(parts[0]), 1) if parts else 1
        places = range(0, max(len(parts), 1), each)
        for place, first in enumerate(places, start=1):
            words = np.frombuffer(b"".join(parts[first : first + each]), "<u4")
            width = np.min_scalar_type(words.max(initial=0)).itemsize  # most counts are small
            nonce = os.urandom(_NONCE)
            content = bytes([width]) + words.astype(f"<u{width}").tobytes()
            # No box is left out, or taken for that of another place.
            yield nonce + self._key.encrypt(nonce, content, about + _PLACE.pack(place, len(places)))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with writing(self._file, _SCHEMA) as db:
                yield db
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self._file, str(error)) from None


class NightAnswers(Private):
    """What clients answer in one night, and the last answers of those that are silent."""

    __slots__ = (
        "_about",
        "_book",
        "_came",
        "_known",
        "_known_senders",
        "_replaced",
        "_size",
        "_terms",
        "_votes",
        "carried",
        "refused",
    )

    def __init__(
        self,
        book: SessionBook,
        terms: Terms,
        size: int,
        known: Mapping[bytes, bytes],
        replaced: Iterable[bytes],
    ) -> None:
        self._book, self._terms, self._size, self._known = book, terms, size, known
        self._came: dict[bytes, bytes] = {}
        # Of each client, the digest of its sender, and the last night that it answered.
        self._about = dict(known)
        self._known_senders = frozenset(about[:NAME] for about in known.values())
        self._replaced = frozenset(replaced)  # Digests of senders in whose place others answer
        self._votes = 0
        self.carried = 0
        """Number of clients whose last answer counts. Public."""
        self.refused: dict[Any, str] = {}
        """Why answers of senders do not count. Public."""

    def came(self, token: bytes, answer: bytes, sender: Any) -> bool:
        """Take an answer, or say in `refused` why not.

        A client that has forgotten its name, or a night that was answered, would count its records
        a second time. A sender that was known under another name has, or has a memory that is not
        its own; so has one in whose place another answered, as a memory that was copied does; and a
        client among whose nights its last one is not.
        """
        client, nights = token[:NAME], int.from_bytes(token[NAME:], "little")
        about = self._known.get(client, b"")
        last = int.from_bytes(about[NAME:], "little")
        night, digest = _night(self._terms), _digest_of(sender)
        is_other = digest != about[:NAME] and digest in self._known_senders
        if len(answer) != self._size:
            self.refused[sender] = "an answer has the wrong length"
        elif client in self._came:
            self.refused[sender] = "it answers under the name of another client in this session"
        elif not nights >> last & 1 or is_other or digest in self._replaced:
            self.refused[sender] = "it has lost its memory of the session, and counts as before"
        else:
            self._came[client] = answer
            self._about[client] = digest + night.number.to_bytes(_LAST, "little")
            self._votes += client in self._known or not self._known
            return True
        return False

    def silent(self) -> dict[bytes, bytes]:
        """Return the last answers of those that have not answered this night, by name."""
        silent = dict[bytes, bytes]()
        if not self._known.keys() <= self._came.keys():
            last = zip(self._known, self._book.last(self._terms, self._size), strict=True)
            silent = {client: answer for client, answer in sorted(last) if client not in self._came}
            self._came |= silent
        self.carried = len(silent)
        return silent

    def read(self, answers: _Answers) -> _Answers:
        """Yield rows without the tokens in front; then those of silent clients."""
        token = NAME + _night(self._terms).history
        for senders, held in answers:
            rows = held.into(lambda answers: [answer[token:] for answer in answers])
            tokens = held.into(lambda answers: [answer[:token] for answer in answers])
            here = [*map(self.came, tokens, rows, senders)]
            yield [*compress(senders, here)], Held([*compress(rows, here)])
        last = Held(list(self.silent().values()))
        yield silent_names(self.carried), last

    def claim(self, bits: BitSource, refused: Iterable[Any] = ()) -> NightNoise:
        """Write down that the night is used, and with what; return its noise.

        Answers of `refused` senders, which no sum takes, are not carried into the next. Of the
        session's clients more than half have to answer: had a night after the last one that is
        kept here been released elsewhere, one of them would have objected.
        """
        night = _night(self._terms)
        voters = len(self._known) or (self._terms.asked if night.number > 1 else 0)
        if voters and 2 * self._votes <= voters:
            raise QueryRefused(
                f"TooFewAnswered: {self._votes} of the {voters} clients of this session answered, "
                "and a night needs more than half of them"
            )
        out = frozenset(map(_digest_of, refused))
        self._came = {
            c: answer for c, answer in self._came.items() if self._about[c][:NAME] not in out
        }
        came = {self._about[client][:NAME] for client in self._came}
        replaced = self._replaced | (self._known_senders - came)
        return self._book.claim(self._terms, self._came, self._about, replaced, bits)


def silent_names(clients: int) -> list[str]:
    """Return what reports call so many silent clients, whose own names no book keeps."""
    return [f"{place} of the silent ones" for place in range(1, clients + 1)]


def _about(what: str, session: str, night: int) -> bytes:
    """Return what a box is bound to: none is taken for that of another night."""
    return f"{what} {session} {night}".encode()


def _law_of(terms: Terms) -> bytes:
    """Return a digest of the table that seeds become noise by: 32 bytes, in front of the seeds."""
    continual = _night(terms).continual
    return _digest(continual_release(terms.guarantee, continual, terms.allotment).table)


def _digest_of(sender: Any) -> bytes:
    return blake2b(str(sender).encode(), digest_size=NAME).digest()


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
