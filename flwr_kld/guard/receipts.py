"""Signed receipts in a chain, in one SQLite file; a spend is reserved by writing its receipt.

A receipt says what was asked and what it costs, never what was counted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from flwr_kld.accounting.budget import ATTO, NANO, in_days, in_steps, shown
from flwr_kld.codec.durable import Schema, writing
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel import Unit
from flwr_kld.kernel.arguments import moment
from flwr_kld.kernel.promise import Adjacency, Hidden
from flwr_kld.sums import Identity

SCHEMA = Schema(
    1,
    [
        """CREATE TABLE receipts (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, "check" TEXT NOT NULL,
    account TEXT NOT NULL, domain TEXT NOT NULL, reference TEXT NOT NULL, terms TEXT NOT NULL,
    model TEXT NOT NULL, trust TEXT NOT NULL, epsilon INTEGER NOT NULL, delta INTEGER NOT NULL,
    unit TEXT NOT NULL, adjacency TEXT NOT NULL, clip INTEGER NOT NULL, partition TEXT NOT NULL,
    residues TEXT NOT NULL,
    previous TEXT NOT NULL, signature BLOB NOT NULL, UNIQUE ("check", account),
    CHECK (typeof(time) || typeof(epsilon) || typeof(delta) || typeof(clip)
    = 'integerintegerintegerinteger'))""",
        "CREATE INDEX spends ON receipts (account, time)",
        """CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, digest TEXT NOT NULL,
    public BLOB NOT NULL, signature BLOB NOT NULL)""",
    ],
)


@dataclass(frozen=True)
class Claim:
    """What one check costs one client, and what it was about."""

    check: str  # Id of the check
    account: str  # Which of the node's clients: each has a budget of its own
    domain: str  # Fingerprints
    reference: str
    terms: str
    model: str  # SHA-256 (hex) of the model that the client computed predictions with, or ``none``
    trust: str  # Trust model
    epsilon: int  # In 10**-9 nats and in 10**-18, of what the check itself hides
    delta: int
    unit: str  # What that is
    adjacency: str
    clip: int  # Most records that were counted; 0 for no limit
    partition: str = ""  # Which buckets of records were asked; both empty for all records
    residues: str = ""


@dataclass(frozen=True)
class Receipt:
    """One row: the fields of a `Claim`, its place in the chain, and the node's signature."""

    number: int  # From 1, without gaps
    time: int  # Seconds since 1970; never before the previous receipt's
    check: str
    account: str
    domain: str
    reference: str
    terms: str
    model: str
    trust: str
    epsilon: int
    delta: int
    unit: str
    adjacency: str
    clip: int
    partition: str
    residues: str
    previous: str  # `digest` of the previous receipt; of the node's public key for the first
    signature: bytes  # Ed25519, over everything else

    @property
    def text(self) -> bytes:
        """What is signed."""
        content = {name: value for name, value in vars(self).items() if name != "signature"}
        return b"flwr-kld receipt 1\n" + json.dumps(content, sort_keys=True).encode()

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

    def reserve(
        self,
        spend: Claim,
        clock: float,
        *,
        period: int,
        epsilon: int,
        delta: int,
        protects: Hidden,
        buckets_apart: bool = False,
    ) -> Receipt:
        """Write the receipt of a spend, durably, if the budget has room for it."""
        with writing(self._path, SCHEMA) as db:
            last = self._last(db)
            now = max(int(moment("the clock", clock)), last.time if last else 0)
            same = 'SELECT 1 FROM receipts WHERE "check" = ? AND account = ?'
            if db.execute(same, (spend.check, spend.account)).fetchone():
                raise QueryRefused("this client answered this check before: each id spends once")
            used, used_delta = _spent(db, spend, now - period, protects, buckets_apart)
            asked, asked_delta = _charged(
                protects, spend.epsilon, spend.delta, spend.unit, spend.adjacency
            )
            days = period / 86400
            if used + asked > epsilon:
                raise QueryRefused(
                    f"epsilon {shown(asked, NANO)} is more than this client has left: "
                    f"{shown(max(epsilon - used, 0), NANO)} of {shown(epsilon, NANO)} "
                    f"in {in_days(days)}"
                )
            if used_delta + asked_delta > delta:
                raise QueryRefused(
                    f"delta {shown(asked_delta, ATTO)} is more than this client has left: "
                    f"{shown(max(delta - used_delta, 0), ATTO)} of {shown(delta, ATTO)} "
                    f"in {in_days(days)}"
                )
            return self._append(db, last, spend, now)

    def _append(
        self, db: sqlite3.Connection, last: Receipt | None, spend: Claim, now: int
    ) -> Receipt:
        number = last.number + 1 if last else 1
        previous = last.digest if last else first_link(self._identity.public)
        unsigned = Receipt(number, now, **vars(spend), previous=previous, signature=b"")
        receipt = Receipt(**{**vars(unsigned), "signature": self._identity.sign(unsigned.text)})
        bare = Head(number, receipt.digest, self._identity.public, b"")
        row = astuple(receipt)
        db.execute(f"INSERT INTO receipts ({COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
        db.execute(
            "INSERT OR REPLACE INTO head (id, number, digest, public, signature) "
            "VALUES (1, ?, ?, ?, ?)",
            (number, bare.digest, bare.public, self._identity.sign(bare.text)),
        )
        return receipt

    def _last(self, db: sqlite3.Connection) -> Receipt | None:
        """Return the chain's last receipt, if the signed head says that it is the last."""
        row = db.execute(f"SELECT {COLUMNS} FROM receipts ORDER BY number DESC LIMIT 1").fetchone()
        head = db.execute(HEAD).fetchone()
        if row is None and head is None:
            return None
        if row is None or head is None:
            raise QueryRefused("this client's receipts are not whole")
        last, end = Receipt(*row), Head(*head)
        if end.public != self._identity.public:
            raise QueryRefused("this client's receipts were signed with another key")
        # Ed25519 signatures are deterministic: to sign again is to verify.
        if (end.number, end.digest) != (last.number, last.digest) or (
            self._identity.sign(end.text) != end.signature
        ):
            raise QueryRefused("this client's receipts are not whole")
        return last


def _charged(
    protects: Hidden, epsilon: int, delta: int, unit: str, adjacency: str
) -> tuple[int, int]:
    """Return what a spend costs whom the limits protect, in 10**-9 nats and in 10**-18."""
    try:
        hidden = Hidden(Unit(unit), Adjacency(adjacency))
    except ValueError:
        raise QueryRefused("this client's receipts are not whole") from None
    steps = hidden.steps(protects)
    if not steps:
        raise QueryRefused(
            f'this client answered a check in this period that hides "{hidden}", and its limits '
            f'now protect "{protects}"'
        )
    return in_steps(epsilon, delta, steps)


def _spent(
    db: sqlite3.Connection, new: Claim, since: int, protects: Hidden, buckets_apart: bool
) -> tuple[int, int]:
    """Most that one record which `new` asks for was charged from a second on, that included."""
    # Buckets of one partition are disjoint: of its checks a record is charged for those over its
    # own bucket. Two partitions may cross, so each adds its most charged bucket.
    kinds = "partition, residues, epsilon, delta, unit, adjacency"
    query = (
        f"SELECT {kinds}, COUNT(*) FROM receipts WHERE account = ? AND time >= ? GROUP BY {kinds}"
    )
    mine = _buckets(new.residues)
    charged: defaultdict[str, tuple[Counter[int | None], Counter[int | None]]]
    charged = defaultdict(lambda: (Counter(), Counter()))
    for partition, residues, *spend, times in db.execute(query, (new.account, since)):
        family, buckets = (partition, _buckets(residues)) if buckets_apart else ("", [None])
        for by_bucket, amount in zip(charged[family], _charged(protects, *spend), strict=True):
            for bucket in buckets:
                by_bucket[bucket] += times * amount
    used = [0, 0]
    for partition, amounts in charged.items():
        for kind, by_bucket in enumerate(amounts):
            asked = mine if partition == new.partition else by_bucket
            used[kind] += max(by_bucket[bucket] for bucket in asked)
    return used[0], used[1]


def _buckets(residues: str) -> list[int | None]:
    """Buckets that a receipt names, as what they are: two spellings are not two buckets."""
    try:
        return [int(bucket) for bucket in residues.split(",")] if residues else [None]
    except ValueError:
        raise QueryRefused("this client's receipts are not whole") from None
