"""A sum by two aggregators: one message a client, which they check and neither can read.

A client splits its counts into two shares, each uniformly random by itself, proves what they are
(`flwr_kld.secure_sums.prio3`), and seals one to each aggregator. The first, the draft's helper,
sends its verifier shares to the second, its leader, which says which proofs hold; both add up those
clients.
Boxes come in portions, as those of many clients are too large for one message.
Each adds noise and masks its answer; only the other's answer about the same clients takes that mask
off, so the two agree on a list, or nobody learns anything.
Proof notes: ``docs/proofs/two-aggregators.md``, ``docs/proofs/prio3.md``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from flwr_kld.common.canonical_bytes import Reader, number, text
from flwr_kld.common.errors import BadSignature, Malformed, NotInvited, QueryRefused
from flwr_kld.common.identity import SIGNATURE, Identity, Roster
from flwr_kld.common.json_text import json_text
from flwr_kld.kernel.channels import seal
from flwr_kld.kernel.count import ClientSizes, InvalidReply
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import (
    LARGEST_CLIENT,
    Held,
    Layout,
    NightNoise,
    PartialSum,
    Private,
)
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.expander import SEED
from flwr_kld.secure_sums.prio3.field import Elements, Field64
from flwr_kld.secure_sums.prio3.shares import HELPER, LEADER, NONCE, RANDOM, Checked, Prio3
from flwr_kld.trust.sealing import OVERHEAD, AggregatorKey, NotOpened, SealContext, open_sealed
from flwr_kld.trust.session_book import NAME, NightAnswers, silent_names
from flwr_kld.trust.terms import Terms

DIGEST = 32
FIELD = Field64()
NOT_PROVED = "not proved: by the client's proof, or by an aggregator that lies"
"""Why a client is not in the sum; nobody can tell which of the two it is."""
PORTION = 2**25
"""Bytes of boxes that one message carries, at most, if they are of more than one client."""
_SEED_BOX = 2 * SEED + OVERHEAD
_PUBLIC = 2 * SEED
_NUMBER = 4
_MAGIC = b"flwr-kld proved sum 1\0"
_FIRST, _SECOND, _OWN = b"verifiers of the first", b"of the second", b"portions before"
"""What an aggregator seals: for the other one, and for itself."""


@lru_cache(maxsize=256)
def _statement(layout: Layout, records: int | None, most: int) -> Counts:
    """Return what a client proves that has so many records; None, and at most so many, if hidden.

    Each column counts all of them.
    """
    largest = most if records is None else max(records, 1)
    return Counts(FIELD, layout.length, largest, layout.parts, records)


def _prio3(terms: Terms, records: int, context: SealContext) -> Prio3:
    public = terms.layout.total_is_public(terms.guarantee)
    most = terms.most_records or LARGEST_CLIENT
    statement = _statement(terms.layout, records if public else None, most)
    return Prio3(statement, sha256(context.to_bytes()).digest())


@dataclass(frozen=True)
class _Head:
    """What both aggregators receive of a client, before its boxes."""

    name: str  # The client's, in the roster that the aggregators pinned
    token: bytes  # By which a session knows the client's memory; empty outside of one
    records: int  # How many it has, where that is public; 0 elsewhere
    nonce: bytes
    public: bytes  # The public share
    signature: bytes = field(repr=False)  # Of `signed_text`

    def to_bytes(self) -> bytes:
        token = number(len(self.token), 2) + self.token
        parts = (text(self.name), token, number(self.records, _NUMBER), self.nonce, self.public)
        return b"".join(parts) + self.signature

    @classmethod
    def read(cls, reader: Reader) -> _Head:
        return cls(
            reader.text(),
            reader.take(reader.number(2)),
            reader.number(_NUMBER),
            reader.take(NONCE),
            reader.take(_PUBLIC),
            reader.take(SIGNATURE),
        )

    def signed_text(self, context: SealContext, seeds: bytes, elements: bytes) -> bytes:
        """Return what a client signs: what its boxes are for, all that is here, both digests."""
        own = replace(self, signature=b"").to_bytes()
        return _MAGIC + sha256(context.to_bytes()).digest() + own + seeds + elements


@dataclass(frozen=True)
class Parcel:
    """What a client sends to the server."""

    head: _Head
    seeds: bytes = field(repr=False)  # The boxes, for the first aggregator and for the second
    elements: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the parcel."""
        return self.head.to_bytes() + self.seeds + self.elements

    @classmethod
    def from_bytes(cls, raw: bytes) -> Parcel:
        """Read `to_bytes`."""
        return cls(*_read(raw, "a parcel", _SEED_BOX))

    def portions(self) -> tuple[bytes, bytes]:
        """Return what each aggregator receives: its box, and the digest of the other's."""
        head = self.head.to_bytes()
        return (
            head + sha256(self.elements).digest() + self.seeds,
            head + sha256(self.seeds).digest() + self.elements,
        )


@dataclass(frozen=True)
class Portion:
    """What an aggregator receives of a parcel."""

    head: _Head
    other: bytes = field(repr=False)  # Digest of the box that the other aggregator received
    box: bytes = field(repr=False)  # Its own

    @classmethod
    def from_bytes(cls, raw: bytes) -> Portion:
        """Read one of `Parcel.portions`; the errors are those of `Parcel.from_bytes`."""
        return cls(*_read(raw, "a part of a parcel", DIGEST))


def _read(raw: object, what: str, size: int) -> tuple[_Head, bytes, bytes]:
    """Read what both aggregators receive, so many bytes, and the rest."""
    if not isinstance(raw, bytes):
        raise InvalidReply(f"{what} is bytes")
    reader = Reader(raw)
    try:
        return _Head.read(reader), reader.take(size), reader.rest()
    except Malformed as error:
        raise InvalidReply(f"this is not {what}: {error}") from None


def split(
    counts: Held[NDArray[np.int64]],
    terms: Terms,
    identity: Identity,
    name: str,
    run: int,
    token: bytes = b"",
) -> Parcel:
    """Split a client's numbers in two shares, prove what they are, and seal them."""
    context = SealContext(run, terms.fingerprint, name)
    public = terms.layout.total_is_public(terms.guarantee)
    records = counts.into(lambda own: int(own[terms.layout.parts[0]].sum())) if public else 0
    prio3, nonce = _prio3(terms, records, context), os.urandom(NONCE)
    shares = counts.into(lambda own: _sharded(prio3, own, nonce))
    if shares is None:
        raise QueryRefused(
            "NotProved: this client's counts are beyond what the terms allow, and have no proof"
        )
    first, second = map(bytes.fromhex, terms.aggregators)
    seeds = seal(first, shares[2], context.to_bytes())
    elements = seal(second, shares[1], context.to_bytes())
    head = _Head(name, token, records, nonce, shares[0], b"")
    digests = (sha256(box).digest() for box in (seeds, elements))
    signature = identity.sign(head.signed_text(context, *digests))
    return Parcel(replace(head, signature=signature), seeds, elements)


def _sharded(
    prio3: Prio3, counts: NDArray[np.int64], nonce: bytes
) -> tuple[bytes, bytes, bytes] | None:
    """Return shares of counts; None if there are none: a traceback's frames would hold counts."""
    try:
        return prio3.shard(counts, nonce, os.urandom(RANDOM))
    except Exception:
        return None


def kept_bytes(terms: Terms) -> int:
    """Return how many bytes an aggregator keeps of a client for a session."""
    return DIGEST + _NUMBER + FIELD.size * terms.numbers


@dataclass(frozen=True)
class _Signed:
    """A box that a known client signed: under which key it came, and the text's digest."""

    sender: str
    head: _Head
    raw: bytes = field(repr=False)  # `Portion`, of which no copy is made before it is opened
    digest: bytes


class Addition(Private):
    """One aggregator's part of one sum. Private: with the other's part it is the exact sum.

    Of each portion of boxes the first aggregator calls `start`, and the second `decide` with what
    that returns; from one portion to the next it keeps `saved`. In the end the first one calls
    `finish`, on all boxes, with all that `decide` returned, and both of them `close`.
    """

    __slots__ = (
        "_context",
        "_is_first",
        "_kept",
        "_key",
        "_listed",
        "_names",
        "_night",
        "_other",
        "_roster",
        "_sizes",
        "_taken",
        "_terms",
        "_total",
        "rejected",
    )  # fmt: skip

    def __init__(
        self,
        key: AggregatorKey,
        terms: Terms,
        run: int,
        roster: Roster,
        night: NightAnswers | None = None,
    ) -> None:
        if key.public.hex() not in terms.aggregators or len(terms.aggregators) != 2:
            raise QueryRefused("WrongAggregator: the sum is for the keys of other aggregators")
        self._key, self._terms, self._roster, self._night = key, terms, roster, night
        self._context = SealContext(run, terms.fingerprint, "")
        first, second = terms.aggregators
        self._is_first = key.public.hex() == first
        self._other = bytes.fromhex(second if self._is_first else first)
        self._total = FIELD.elements(np.zeros(terms.numbers, np.int64))
        self._taken: dict[str, _Signed] = {}
        self._names: set[str] = set()
        """Of the clients of all portions."""
        self._listed: list[bytes] = []
        """Names and digests of the clients in the sum."""
        self._kept: list[tuple[bytes, bytes, str]] = []
        """What a session takes of those that answered."""
        self._sizes: dict[str, int] = {}
        self.rejected: dict[str, str] = {}
        """Why clients are not in the sum, by the key that their box came under. Public."""

    @property
    def is_first(self) -> bool:
        """Whether this aggregator receives seeds, and sends its verifier shares first. Public."""
        return self._is_first

    @property
    def clients(self) -> int:
        """Number of clients in the sum. Public."""
        return len(self._sizes)

    def take(self, portions: Mapping[str, bytes]) -> None:
        """Check signatures; of a client with two boxes, or one in a portion before, take none."""
        if not portions.keys().isdisjoint(self._sizes.keys() | self.rejected.keys()):
            raise QueryRefused("Duplicated: two boxes of one sender")
        known = list(self._known(portions))
        often = Counter(one.head.name for one in known)
        for one in known:
            if often[one.head.name] > 1 or one.head.name in self._names:
                self.rejected[one.sender] = "Duplicated: two boxes of one client"
            else:
                self._taken[one.head.name] = one
        self._names |= often.keys()

    def start(self) -> bytes:
        """Return the first aggregator's verifier shares, sealed for the second."""
        return self._told({name: own for name, _, own in self._verified()})

    def decide(self, box: bytes) -> bytes:
        """Add up the clients whose proofs hold; return verifier messages, sealed for the first."""
        theirs, messages = self._heard(box), dict[str, bytes]()
        for name, checked, own in self._verified():
            if name not in theirs:
                continue
            prio3 = self._prio3(self._taken[name])
            try:
                message = prio3.message(own, theirs[name])
                share = prio3.output(checked, message)
            except InvalidReply:
                continue
            if self._add(name, share):
                messages[name] = message
        said = self._told(messages)
        self._leave_out()
        return said

    def finish(self, *boxes: bytes) -> None:
        """Add up the clients whose proofs the second aggregator found to hold."""
        theirs = dict[str, bytes]()
        for box in boxes:
            theirs |= self._heard(box)
        for name, one, share in self._opened():
            if name not in theirs:
                continue
            prio3, head = self._prio3(one), one.head
            try:
                checked = prio3.checked(HELPER, head.nonce, head.public, share)
                self._add(name, prio3.output(checked, theirs[name]))
            except InvalidReply:
                continue
        self._leave_out()

    def close(self) -> None:
        """Add what silent clients of a session answered before."""
        silent = self._night.silent() if self._night is not None else {}
        names = silent_names(len(silent))
        for name, (client, kept) in zip(names, silent.items(), strict=True):
            records = int.from_bytes(kept[DIGEST : DIGEST + _NUMBER], "little")
            self._count(name, client + kept[:DIGEST], records, kept[DIGEST + _NUMBER :])

    def saved(self) -> bytes:
        """Seal for this aggregator alone what was added up so far."""
        state = {
            "total": FIELD.encode(self._total).hex(),
            "names": sorted(self._names),
            "listed": [one.hex() for one in self._listed],
            "sizes": self._sizes,
            "rejected": self.rejected,
            "kept": [(client.hex(), kept.hex(), name) for client, kept, name in self._kept],
        }
        return self._sealed(_OWN, self._key.public, json_text(state).encode())

    def resume(self, box: bytes) -> None:
        """Go on from what `saved` returned."""
        state = json.loads(self._unsealed(_OWN, self._key.public, box))
        self._total = FIELD.decode(bytes.fromhex(state["total"]))
        self._names, self._listed = set(state["names"]), [*map(bytes.fromhex, state["listed"])]
        self._sizes, self.rejected = state["sizes"], state["rejected"]
        for client, kept, name in state["kept"]:
            self._answered(bytes.fromhex(client), bytes.fromhex(kept), name)

    @property
    def sizes(self) -> ClientSizes | None:
        """How the records are shared out; None where that is hidden, or there are none. Public."""
        if not any(self._sizes.values()):
            return None
        sizes = dict(sorted(self._sizes.items()))  # in both aggregators' order, to the last bit
        return ClientSizes.of(list(sizes.values()), max(sizes, key=sizes.__getitem__))

    @property
    def records(self) -> int:
        """Number of records, where that is public; 0 elsewhere. Public."""
        return sum(self._sizes.values())

    @property
    def transcript(self) -> bytes:
        """Digest of the names and boxes of the clients in the sum. Public."""
        return sha256(_MAGIC + b"".join(sorted(self._listed))).digest()

    def answer(self, event: Release, noise: BitSource | NightNoise) -> bytes:
        """Add noise and the mask; to be called once."""
        about = self._about(b"answer") + self.transcript
        mask = [self._key.shared(self._other, about)]
        added, removed = (mask, []) if self._is_first else ([], mask)
        part = PartialSum(self._total, self._terms.most_records)
        return part.answer(event, self._terms.layout, noise, added=added, removed=removed)

    def _add(self, name: str, share: Elements) -> bool:
        """Add a client's share, unless a session has another answer of it."""
        one = self._taken[name]
        head, encoded = one.head, FIELD.encode(share)
        kept = one.digest + number(head.records, _NUMBER) + encoded
        # By both names: who learns another's token does not take its place.
        client = sha256(text(name) + head.token[:NAME]).digest()[:NAME] + head.token[NAME:]
        if not self._answered(client, kept, name):
            return False
        self._count(one.sender, text(name) + one.digest, head.records, encoded)
        return True

    def _answered(self, client: bytes, kept: bytes, name: str) -> bool:
        """Whether a session takes a client's answer; outside of one it is taken."""
        if self._night is None:
            return True
        if not self._night.came(client, kept, name):
            self.rejected[self._taken[name].sender] = self._night.refused[name]
            return False
        self._kept.append((client, kept, name))
        return True

    def _count(self, sender: str, listed: bytes, records: int, share: bytes) -> None:
        self._total = FIELD.add(self._total, FIELD.decode(share))
        self._listed.append(listed)
        self._sizes[sender] = records

    def _leave_out(self) -> None:
        """Say who of this portion is in no sum."""
        for one in self._taken.values():
            if one.sender not in self._sizes:
                self.rejected.setdefault(one.sender, NOT_PROVED)

    def _opened(self) -> Iterator[tuple[str, _Signed, bytes]]:
        """Open the boxes of this portion, one after the other: there is room for one share."""
        for name, one in sorted(self._taken.items()):
            try:
                box = Portion.from_bytes(one.raw).box
                share = open_sealed(self._key, box, self._of(name))
            except NotOpened as error:
                self.rejected[one.sender] = f"NotOpened: {error}"
                continue
            yield name, one, share

    def _verified(self) -> Iterator[tuple[str, Checked, bytes]]:
        """Yield names of clients, what is kept of them, and verifier shares."""
        key = self._key.shared(self._other, self._about(b"verification key"))
        place = HELPER if self._is_first else LEADER
        for name, one, share in self._opened():
            head = one.head
            try:
                found = self._prio3(one).verify_init(key, place, head.nonce, head.public, share)
            except InvalidReply:
                continue
            yield name, *found

    def _prio3(self, one: _Signed) -> Prio3:
        return _prio3(self._terms, one.head.records, self._of(one.head.name))

    def _told(self, said: Mapping[str, bytes]) -> bytes:
        """Seal what is said of clients for the other aggregator, and for nobody else."""
        listed = (
            text(name) + self._taken[name].digest + number(len(own)) + own
            for name, own in said.items()
        )
        return self._sealed(_FIRST if self._is_first else _SECOND, self._other, b"".join(listed))

    def _heard(self, box: bytes) -> dict[str, bytes]:
        """Open what the other aggregator said of clients whose boxes, the same, are here."""
        reader = Reader(self._unsealed(_SECOND if self._is_first else _FIRST, self._other, box))
        found = dict[str, bytes]()
        while not reader.done:
            name, digest, own = reader.text(), reader.take(DIGEST), reader.take(reader.number())
            if name in self._taken and self._taken[name].digest == digest:
                found[name] = own
        return found

    def _sealed(self, purpose: bytes, other: bytes, content: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher(purpose, other).encrypt(nonce, content, None)

    def _unsealed(self, purpose: bytes, other: bytes, box: bytes) -> bytes:
        try:
            return self._cipher(purpose, other).decrypt(box[:12], box[12:], None)
        except (InvalidTag, ValueError):
            raise QueryRefused(
                "NotOpened: that is not what an aggregator sealed for this"
            ) from None

    def _cipher(self, purpose: bytes, other: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self._key.shared(other, self._about(purpose)))

    def _about(self, purpose: bytes) -> bytes:
        return _MAGIC + sha256(self._of("").to_bytes()).digest() + purpose

    def _of(self, sender: str) -> SealContext:
        return replace(self._context, sender=sender)

    def _known(self, portions: Mapping[str, bytes]) -> Iterator[_Signed]:
        """Yield boxes that clients of the roster signed."""
        for sender, raw in portions.items():
            try:
                portion = Portion.from_bytes(raw)
                head, context = portion.head, self._of(portion.head.name)
                digests = sha256(portion.box).digest(), portion.other
                ordered = digests if self._is_first else digests[::-1]
                signed = head.signed_text(context, *ordered)
                place = self._roster.position(head.name)
                self._roster.verify(place, head.signature, signed)
                self._hold(head)
            except InvalidReply as error:
                self.rejected[sender] = str(error)
            except NotInvited:
                self.rejected[sender] = "NotInvited: not in the aggregator's roster"
            except BadSignature:
                self.rejected[sender] = "BadSignature: not signed by this client for this sum"
            else:
                yield _Signed(sender, head, raw, sha256(signed).digest())

    def _hold(self, head: _Head) -> None:
        """Hold a claimed number of records to what a client may have."""
        public = self._terms.layout.total_is_public(self._terms.guarantee)
        most = (self._terms.most_records or LARGEST_CLIENT) if public else 0
        if head.records > most:
            raise InvalidReply("more records than a client may have")
