"""A sum by two aggregators: one message a client, and neither of the two can read it alone.

A client seals a seed for one and a masked vector for the other; they add up to the vector, and
either is uniformly random by itself. Each aggregator adds noise and masks its answer; only the
other's answer about the same clients takes that mask off, so the two agree on a list, or nobody
learns anything.
Proof note: ``docs/proofs/two-aggregators.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from flwr_kld.common.canonical_bytes import Reader, number, text
from flwr_kld.common.errors import BadSignature, Malformed, NotInvited, QueryRefused
from flwr_kld.common.identity import SIGNATURE, Identity, Roster
from flwr_kld.kernel.channels import KEY, WORD
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import NightNoise, PartialSum, Private, SumVector
from flwr_kld.trust.sealing import OVERHEAD, AggregatorKey, NotOpened, SealContext, open_sealed
from flwr_kld.trust.session_book import NAME, NightAnswers
from flwr_kld.trust.terms import Terms

DIGEST = 32
_SEED_BOX = KEY + OVERHEAD
_MAGIC = b"flwr-kld split sum 1\0"


def signed_text(context: SealContext, token: bytes, seeds: bytes, vectors: bytes) -> bytes:
    """Return what a client signs: what its boxes are for, its token, and the digests of both."""
    return _MAGIC + sha256(context.to_bytes()).digest() + token + seeds + vectors


@dataclass(frozen=True)
class Parcel:
    """What a client sends to the server."""

    name: str  # The client's, in the roster that the aggregators pinned
    token: bytes  # By which a session knows the client's memory; empty outside of one
    signature: bytes = field(repr=False)  # Of `signed_text`
    seed: bytes = field(repr=False)  # The two boxes
    vector: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the parcel."""
        return self._head + self.seed + self.vector

    @classmethod
    def from_bytes(cls, raw: bytes) -> Parcel:
        """Read `to_bytes`."""
        return cls(*_read(raw, "a parcel", _SEED_BOX))

    def portions(self) -> tuple[bytes, bytes]:
        """Return what each aggregator receives: its box, and the digest of the other's."""
        return (
            self._head + sha256(self.vector).digest() + self.seed,
            self._head + sha256(self.seed).digest() + self.vector,
        )

    @property
    def _head(self) -> bytes:
        return text(self.name) + number(len(self.token), 2) + self.token + self.signature


@dataclass(frozen=True)
class Portion:
    """What an aggregator receives of a parcel."""

    name: str  # As in `Parcel`
    token: bytes
    signature: bytes = field(repr=False)
    other: bytes = field(repr=False)  # Digest of the box that the other aggregator received
    box: bytes = field(repr=False)  # Its own

    @classmethod
    def from_bytes(cls, raw: bytes) -> Portion:
        """Read one of `Parcel.portions`; the errors are those of `Parcel.from_bytes`."""
        return cls(*_read(raw, "a part of a parcel", DIGEST))


def split_length(terms: Terms) -> int:
    """Return how many numbers are split: a client's, and a 1 for the client itself."""
    return terms.length + 1


def split_size(terms: Terms) -> int:
    """Return the bytes of these numbers."""
    return split_length(terms) * WORD.itemsize


def split(
    vector: SumVector, terms: Terms, identity: Identity, name: str, run: int, token: bytes = b""
) -> Parcel:
    """Split a client's vector in two parts, each uniformly random by itself, and seal them."""
    context = SealContext(run, terms.fingerprint, name)
    seeds, vectors = map(bytes.fromhex, terms.aggregators)
    boxes = vector.split(seeds, vectors, context.to_bytes())
    digests = (sha256(box).digest() for box in boxes)
    return Parcel(name, token, identity.sign(signed_text(context, token, *digests)), *boxes)


def _read(raw: object, what: str, size: int) -> tuple[str, bytes, bytes, bytes, bytes]:
    """Read a name, its token and signature, so many bytes, and the rest."""
    if not isinstance(raw, bytes):
        raise InvalidReply(f"{what} is bytes")
    reader = Reader(raw)
    try:
        name, token = reader.text(), reader.take(reader.number(2))
        return name, token, reader.take(SIGNATURE), reader.take(size), reader.rest()
    except Malformed as error:
        raise InvalidReply(f"this is not {what}: {error}") from None


_ANSWER = b"flwr-kld split sum 1 answer\0"


class _Signed(NamedTuple):
    """A box that a known client signed: under which key it came, and the digest of the text."""

    sender: str
    context: SealContext
    token: bytes
    box: bytes
    digest: bytes


class Addition(Private):
    """One aggregator's part of one sum. Private: with the other's part it is the exact sum."""

    __slots__ = (
        "_adds_seeds",
        "_context",
        "_key",
        "_other",
        "_part",
        "_roster",
        "_terms",
        "_transcript",
        "clients",
        "rejected",
    )  # fmt: skip

    def __init__(self, key: AggregatorKey, terms: Terms, run: int, roster: Roster) -> None:
        if key.public.hex() not in terms.aggregators or len(terms.aggregators) != 2:
            raise QueryRefused("WrongAggregator: the sum is for the keys of other aggregators")
        self._key, self._terms, self._roster = key, terms, roster
        self._context = SealContext(run, terms.fingerprint, "")
        seeds, vectors = terms.aggregators
        self._adds_seeds = key.public.hex() == seeds
        self._other = bytes.fromhex(vectors if self._adds_seeds else seeds)
        self._part = PartialSum(split_length(terms), terms.most_records)
        self._transcript = sha256(_ANSWER)
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.rejected: dict[str, str] = {}
        """Why others are not, by the key that their box came under. Public."""

    @property
    def size(self) -> int:
        """Bytes that `take` keeps of a client for a session."""
        return DIGEST + (KEY if self._adds_seeds else split_size(self._terms))

    def take(self, portions: Mapping[str, bytes], night: NightAnswers | None = None) -> None:
        """Check signatures, open boxes, and add up; a client with two boxes is in it with none."""
        known = sorted(self._known(portions), key=lambda signed: signed.context.sender)
        often = Counter(signed.context.sender for signed in known)
        opened = []
        # By name, so that both aggregators have one list whatever order the boxes came in.
        for sender, context, token, box, digest in known:
            if often[context.sender] > 1:
                self.rejected[sender] = "Duplicated: two boxes of one client"
                continue
            try:
                content = self._opened(box, context)
            except InvalidReply as error:
                name = "NotOpened: " if isinstance(error, NotOpened) else ""
                self.rejected[sender] = f"{name}{error}"
                continue
            # By both names: who learns another's token does not take its place.
            client = sha256(text(context.sender) + token[:NAME]).digest()[:NAME] + token[NAME:]
            if night is not None and not night.came(client, digest + content, context.sender):
                self.rejected[sender] = night.refused[context.sender]
                continue
            opened.append(content)
            self._transcript.update(text(context.sender) + digest)
            self.clients += 1
        for client, kept in (night.silent() if night is not None else {}).items():
            self._transcript.update(client + kept[:DIGEST])
            opened.append(kept[DIGEST:])
            self.clients += 1
        if self._adds_seeds:
            self._part.add_seeds(opened)
        else:
            self._part.add_vectors(opened)

    @property
    def transcript(self) -> bytes:
        """Digest of the names and boxes of the clients in the sum. Public."""
        return self._transcript.digest()

    def answer(self, event: Release, noise: BitSource | NightNoise) -> bytes:
        """Add noise to what is to be noised, and the mask to all; to be called once."""
        mask = [self._mask()]
        added, removed = (mask, []) if self._adds_seeds else ([], mask)
        return self._part.answer(event, self._terms.layout, noise, added=added, removed=removed)

    def _mask(self) -> bytes:
        """Return the key of a mask that one aggregator adds and the other takes off."""
        about = _ANSWER + sha256(self._of("").to_bytes()).digest() + self.transcript
        return self._key.shared(self._other, about)

    def _of(self, sender: str) -> SealContext:
        return replace(self._context, sender=sender)

    def _known(self, portions: Mapping[str, bytes]) -> Iterator[_Signed]:
        """Yield what clients of the roster signed."""
        for sender, raw in portions.items():
            try:
                portion = Portion.from_bytes(raw)
                context = self._of(portion.name)
                digests = sha256(portion.box).digest(), portion.other
                ordered = digests if self._adds_seeds else digests[::-1]
                signed = signed_text(context, portion.token, *ordered)
                place = self._roster.position(portion.name)
                self._roster.verify(place, portion.signature, signed)
            except InvalidReply as error:
                self.rejected[sender] = str(error)
            except NotInvited:
                self.rejected[sender] = "NotInvited: not in the aggregator's roster"
            except BadSignature:
                self.rejected[sender] = "BadSignature: not signed by this client for this sum"
            else:
                digest = sha256(signed).digest()
                yield _Signed(sender, context, portion.token, portion.box, digest)

    def _opened(self, box: bytes, context: SealContext) -> bytes:
        """Return a seed, or a masked vector."""
        opened = open_sealed(self._key, box, context)
        if len(opened) != (KEY if self._adds_seeds else split_size(self._terms)):
            raise InvalidReply("a part of a client's numbers has the wrong length")
        return opened
