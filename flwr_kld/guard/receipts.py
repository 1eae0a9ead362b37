"""Signed receipts in a hash chain, in one SQLite file; writing one reserves a spend.

A receipt says what was asked and what it costs, never what was counted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from flwr_kld.common.durable_files import Schema, UnusableSecret, secret_of, writing
from flwr_kld.common.errors import QueryRefused
from flwr_kld.common.identity import Identity
from flwr_kld.guard.limits import GuardFileError, Limits
from flwr_kld.kernel.arguments import moment
from flwr_kld.kernel.promise import Protected
from flwr_kld.ledger.budget import in_days, shown, written


def node_identity(path: Path) -> Identity:
    """Read the signing key, or make it on first use."""
    try:
        return Identity(secret_of(path))
    except UnusableSecret as error:
        raise GuardFileError(str(error)) from None


SCHEMA = Schema(
    1,
    [
        """CREATE TABLE receipts (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, "check" TEXT NOT NULL,
    account TEXT NOT NULL, plan TEXT NOT NULL, terms TEXT NOT NULL,
    model TEXT NOT NULL, trust TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    protects TEXT NOT NULL, most_records INTEGER NOT NULL, until INTEGER NOT NULL,
    session TEXT NOT NULL, night INTEGER NOT NULL,
    previous TEXT NOT NULL, signature BLOB NOT NULL,
    CHECK (typeof(time) || typeof(most_records) || typeof(until) || typeof(night)
    = 'integerintegerintegerinteger'))""",
        """CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, digest TEXT NOT NULL,
    public BLOB NOT NULL, signature BLOB NOT NULL)""",
    ],
    rows="SELECT * FROM receipts ORDER BY number",
)


CLAIMED, OWN = "training: claimed noise", "training: own noise"
"""Instead of a trust model, whose noise a round of training has: the server's, or the node's."""


@dataclass(frozen=True)
class Claim:
    """What one check, or one round of training, costs one client, and what it was about."""

    check: str  # Id of the check; of a round, of its message
    account: str  # Which of the node's clients: each has a budget of its own
    plan: str  # Fingerprints; both are of the domain, too
    terms: str  # Of a round, the noise multiplier
    model: str  # SHA-256 (hex) of the model that the client computed predictions with, or ``none``
    trust: str  # Trust model; `CLAIMED` or `OWN` for a round
    epsilon: Fraction  # In nats, for whom the check protects
    delta: Fraction
    protects: str  # Whom that is: each record, or each client
    most_records: int  # Most records that were counted; 0 for no limit
    until: int  # Last moment of a release, in seconds since 1970; of a session, of any night's
    session: str = ""  # Fingerprint of the standing session, all of whose nights are one spend
    night: int = 0  # Of that session, from 1

    @property
    def of_training(self) -> bool:
        """Whether it is a round of training, which no limit of checks counts."""
        return self.trust in (CLAIMED, OWN)


@dataclass(frozen=True, kw_only=True)
class Receipt(Claim):
    """One row: a claim, its place in the chain, and the node's signature."""

    number: int  # From 1, without gaps
    time: int  # Seconds since 1970; never before the previous receipt's
    previous: str  # `digest` of the previous receipt; of the node's public key for the first
    signature: bytes  # Ed25519, over everything else

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Receipt:
        """Return the receipt of a row's `COLUMNS`."""
        kept = {field.name: value for field, value in zip(fields(cls), row, strict=True)}
        return cls(**kept | {name: written(kept[name]) for name in ("epsilon", "delta")})

    @property
    def row(self) -> tuple[Any, ...]:
        """The row's `COLUMNS`."""
        return tuple(str(one) if isinstance(one, Fraction) else one for one in astuple(self))

    @property
    def text(self) -> bytes:
        """What is signed."""
        content = {name: value for name, value in vars(self).items() if name != "signature"}
        return b"flwr-kld receipt 1\n" + json.dumps(content, sort_keys=True, default=str).encode()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of text and signature: the link that the next receipt holds."""
        return hashlib.sha256(self.text + self.signature).hexdigest()


@dataclass(frozen=True)
class Head:
    """Where the chain ends, signed, so that nobody cuts its end off."""

    number: int  # Of the last receipt
    digest: str
    public: bytes  # The node's public key
    signature: bytes  # Ed25519, over number and digest

    @property
    def text(self) -> bytes:
        """What is signed."""
        return f"flwr-kld receipts head 1\n{self.number} {self.digest}".encode()


COLUMNS = ", ".join(f'"{entry.name}"' for entry in fields(Receipt))
HEAD = "SELECT number, digest, public, signature FROM head WHERE id = 1"


def first_link(public: bytes) -> str:
    """Return what the first receipt holds as its predecessor."""
    return hashlib.sha256(b"flwr-kld receipts 1\n" + public).hexdigest()


class Receipts:
    """The file, open for a node to spend from."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self._path, self._identity = path, identity
        # Made with the end of an empty chain: a file whose end is gone is never a new one.
        head = self._head(0, first_link(identity.public))
        values = f"1, 0, '{head.digest}', x'{head.public.hex()}', x'{head.signature.hex()}'"
        begun = [*SCHEMA.statements, f"INSERT INTO head VALUES ({values})"]
        self._schema = replace(SCHEMA, statements=begun)

    def reserve(self, spend: Claim, clock: float, limits: Limits) -> Receipt:
        """Write the receipt of a spend, durably, if the budget has room for it."""
        with writing(self._path, self._schema) as db:
            end, now, night = self._admitted(db, spend, clock, limits)
            if spend.session and spend.night <= night:
                raise QueryRefused(
                    f"this client answered night {night} of this session: nights only go on"
                )
            return self._append(db, end, spend, now)

    def last_night(self, spend: Claim, clock: float, limits: Limits) -> int:
        """Refuse what `reserve` would refuse of a later night; return the last one, 0 for none."""
        with writing(self._path, self._schema) as db:
            return self._admitted(db, spend, clock, limits)[2]

    def _admitted(
        self, db: sqlite3.Connection, spend: Claim, clock: float, limits: Limits
    ) -> tuple[Head, int, int]:
        """Refuse a spend, or return the chain's end, the time and the last night."""
        end, seen = self._end(db)
        now = max(int(moment("the clock", clock)), seen)
        same = 'SELECT 1 FROM receipts WHERE "check" = ? AND account = ?'
        if db.execute(same, (spend.check, spend.account)).fetchone():
            raise QueryRefused("this client answered this check before: each id spends once")
        nights = "SELECT MAX(night) FROM receipts WHERE account = ? AND session = ?"
        night = db.execute(nights, (spend.account, spend.session)).fetchone()[0] or 0
        for name, used, asked, most, seconds in _uses(db, spend, now, limits):
            if used + asked > most:
                raise QueryRefused(
                    f"{name} {shown(asked)} is more than this client has left: "
                    f"{shown(max(most - used, Fraction(0)))} of {shown(most)} "
                    f"in {in_days(seconds / 86400)}"
                )
        return end, now, night

    def _append(self, db: sqlite3.Connection, end: Head, spend: Claim, now: int) -> Receipt:
        number, previous = end.number + 1, end.digest
        unsigned = Receipt(**vars(spend), number=number, time=now, previous=previous, signature=b"")
        receipt = replace(unsigned, signature=self._identity.sign(unsigned.text))
        row = receipt.row
        db.execute(f"INSERT INTO receipts ({COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
        db.execute(
            "UPDATE head SET number = ?, digest = ?, public = ?, signature = ?",
            astuple(self._head(receipt.number, receipt.digest)),
        )
        return receipt

    def _head(self, number: int, digest: str) -> Head:
        """Sign where the chain ends."""
        bare = Head(number, digest, self._identity.public, b"")
        return replace(bare, signature=self._identity.sign(bare.text))

    def _end(self, db: sqlite3.Connection) -> tuple[Head, int]:
        """Return the chain's signed end, if it is where that says, and the last receipt's time."""
        row = db.execute(f"SELECT {COLUMNS} FROM receipts ORDER BY number DESC LIMIT 1").fetchone()
        head = db.execute(HEAD).fetchone()
        if head is None:
            raise QueryRefused("this client's receipts are not whole")
        end = Head(*head)
        if end.public != self._identity.public:
            raise QueryRefused("this client's receipts were signed with another key")
        number, digest, time = 0, first_link(end.public), 0
        try:
            if row is not None:
                last = Receipt.of_row(row)
                number, digest, time = last.number, last.digest, last.time
            # Ed25519 signatures are deterministic: to sign again is to verify.
            whole = end == self._head(number, digest)
        except (TypeError, ValueError):  # a column holds another type, or no amount
            whole = False
        if not whole:
            raise QueryRefused("this client's receipts are not whole")
        return end, time


def _uses(
    db: sqlite3.Connection, spend: Claim, now: int, limits: Limits
) -> Iterator[tuple[str, Fraction, Fraction, Fraction, int]]:
    """Yield what is limited: its name, how much was used and is asked for, the most, and where."""
    if spend.of_training and (training := limits.training):
        query = "SELECT COUNT(*) FROM receipts WHERE account = ? AND time >= ? AND trust IN (?, ?)"
        since = now - training.seconds
        (rounds,) = db.execute(query, (spend.account, since, CLAIMED, OWN)).fetchone()
        most = Fraction(training.max_rounds)
        yield "rounds", Fraction(rounds), Fraction(1), most, training.seconds
        return
    period = limits.period
    used = _spent(db, spend.account, spend.session, now - period.seconds, limits.protects)
    yield "epsilon", used[0], spend.epsilon, period.max_epsilon, period.seconds
    yield "delta", used[1], spend.delta, period.max_delta, period.seconds


def _spent(
    db: sqlite3.Connection, account: str, session: str, since: int, protects: Protected
) -> tuple[Fraction, Fraction]:
    """Return what a client was charged for releases that a second, or a later one, may see."""
    # The nights of a session are one charge, and those of the one that asks are in what it asks.
    kinds = "epsilon, delta, protects"
    query = (
        f"SELECT {kinds}, COUNT(DISTINCT coalesce(nullif(session, ''), number)) FROM receipts "
        "WHERE account = ? AND max(time, until) >= ? AND (session = '' OR session <> ?) "
        f"AND trust NOT IN (?, ?) GROUP BY {kinds}"
    )
    used = [Fraction(0), Fraction(0)]
    those = account, since, session, CLAIMED, OWN
    for epsilon, delta, protected, times in db.execute(query, those):
        if protected != protects:
            raise QueryRefused(
                f"this client answered a check in this period that protects each {protected}, and "
                f"its limits are now for each {protects}"
            )
        used[0] += times * written(epsilon)
        used[1] += times * written(delta)
    return used[0], used[1]


class ReceiptsTampered(ValueError):
    """The receipts are not those that the node wrote; says where that shows."""


@dataclass(frozen=True)
class Audit:
    """A file of receipts that holds together."""

    receipts: tuple[Receipt, ...]  # All of them, in order
    head: str  # Digest of the last one. Keep it: the next audit can ask for it.
    public: bytes  # The key that signed them


def spent_by_client(path: Path, limits: Limits, now: float) -> dict[str, tuple[Fraction, Fraction]]:
    """Return epsilon and delta that each of a node's clients is charged for in the period.

    Raises
    ------
    QueryRefused
        If receipts of the period protect others than the limits do: the node refuses every check.
    """
    since = int(now) - limits.period.seconds
    with _reading(path) as db:
        found = db.execute("SELECT DISTINCT account FROM receipts").fetchall()
        return {account: _spent(db, account, "", since, limits.protects) for (account,) in found}


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file of receipts, in one state, to be read alone."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        SCHEMA.require(db, path)
        db.execute("BEGIN")
        yield db


def verify(path: str | Path, public: bytes | None = None, *, head: str | None = None) -> Audit:
    """Verify every signature and link.

    Parameters
    ----------
    path : str or Path
        The SQLite file.
    public : bytes, optional
        The node's public key, as the auditor knows it. By default the one that the file names:
        then the file may have been written anew with another key.
    head : str, optional
        `Audit.head` of an earlier audit, which must be part of the chain: without it, a file that
        was put back to an older state looks whole.

    Raises
    ------
    ReceiptsTampered
        What is wrong, and at which receipt.
    sqlite3.Error
        If it is not a readable file of receipts, as this version writes them.
    """
    with _reading(Path(path)) as db:
        rows = db.execute(f"SELECT {COLUMNS} FROM receipts ORDER BY number").fetchall()
        end = db.execute(HEAD).fetchone()
    if end is None:
        raise ReceiptsTampered("the signed end of the chain is missing")
    last = Head(*end)
    if public is not None and public != last.public:
        raise ReceiptsTampered("the receipts were signed with another key")
    try:
        key = Ed25519PublicKey.from_public_bytes(last.public)
    except (TypeError, ValueError):
        raise ReceiptsTampered("the public key is not readable") from None
    receipts, link, before = [], first_link(last.public), 0
    links = {link}
    for number, row in enumerate(rows, start=1):
        wrong = f"receipt {number} was changed, or its signature"
        try:
            receipt = Receipt.of_row(row)
        except (ValueError, ArithmeticError):
            raise ReceiptsTampered(wrong) from None
        _signed(key, receipt, wrong)
        if receipt.number != number:
            raise ReceiptsTampered(f"receipt {number} is missing")
        if receipt.previous != link:
            raise ReceiptsTampered(f"receipt {number} does not follow the one before it")
        if receipt.time < before:
            raise ReceiptsTampered(f"receipt {number} is older than the one before it")
        receipts.append(receipt)
        link, before = receipt.digest, receipt.time
        links.add(link)
    _signed(key, last, "the signed end of the chain was changed")
    if (last.number, last.digest) != (len(receipts), link):
        raise ReceiptsTampered("receipts are missing at the end")
    if head is not None and head not in links:
        raise ReceiptsTampered("the receipt that an earlier audit ended with is missing")
    return Audit(tuple(receipts), link, last.public)


def _signed(key: Ed25519PublicKey, what: Receipt | Head, wrong: str) -> None:
    try:
        key.verify(what.signature, what.text)
    except (InvalidSignature, TypeError, ValueError):
        raise ReceiptsTampered(wrong) from None
