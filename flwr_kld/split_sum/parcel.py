"""A client's one message: a seed for one aggregator, a masked vector for the other.

Each is sealed, and both are signed. Seed and masked vector add up to the vector; either is
uniformly random by itself.
Proof note: ``docs/proofs/two-aggregators.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from flwr_kld.kernel.channels import KEY
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import SumVector
from flwr_kld.messages.sealing import OVERHEAD, SealContext
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.secure_aggregation.errors import Malformed
from flwr_kld.secure_aggregation.identity import SIGNATURE, Identity
from flwr_kld.secure_aggregation.wire import Reader, text

DIGEST = 32
_SEED_BOX = KEY + OVERHEAD
_MAGIC = b"flwr-kld split sum 1\0"


def signed_text(context: SealContext, seeds: bytes, vectors: bytes) -> bytes:
    """Return what a client signs: what its boxes are for, and the digests of both."""
    return _MAGIC + sha256(context.to_bytes()).digest() + seeds + vectors


@dataclass(frozen=True)
class Parcel:
    """What a client sends to the server."""

    name: str  # The client's, in the roster that the aggregators pinned
    signature: bytes = field(repr=False)  # Of `signed_text`
    seed: bytes = field(repr=False)  # The two boxes
    vector: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the parcel."""
        return text(self.name) + self.signature + self.seed + self.vector

    @classmethod
    def from_bytes(cls, raw: bytes) -> Parcel:
        """Read `to_bytes`."""
        reader = _reader(raw)
        try:
            name, signature, seed = reader.text(), reader.take(SIGNATURE), reader.take(_SEED_BOX)
            return cls(name, signature, seed, reader.rest())
        except Malformed as error:
            raise InvalidReply(f"this is not a parcel: {error}") from None

    def portions(self) -> tuple[bytes, bytes]:
        """Return what each aggregator receives: its box, and the digest of the other's."""
        head = text(self.name) + self.signature
        return (
            head + sha256(self.vector).digest() + self.seed,
            head + sha256(self.seed).digest() + self.vector,
        )


@dataclass(frozen=True)
class Portion:
    """What an aggregator receives of a parcel."""

    name: str  # As in `Parcel`
    signature: bytes = field(repr=False)
    other: bytes = field(repr=False)  # Digest of the box that the other aggregator received
    box: bytes = field(repr=False)  # Its own

    @classmethod
    def from_bytes(cls, raw: bytes) -> Portion:
        """Read one of `Parcel.portions`; the errors are those of `Parcel.from_bytes`."""
        reader = _reader(raw)
        try:
            name, signature, other = reader.text(), reader.take(SIGNATURE), reader.take(DIGEST)
            return cls(name, signature, other, reader.rest())
        except Malformed as error:
            raise InvalidReply(f"this is not a part of a parcel: {error}") from None


def split(vector: SumVector, terms: SplitTerms, identity: Identity, context: SealContext) -> Parcel:
    """Split a vector in two parts, each uniformly random by itself, and seal them."""
    seeds, vectors = bytes.fromhex(terms.seeds), bytes.fromhex(terms.vectors)
    boxes = vector.split(seeds, vectors, context.to_bytes(), terms.bits)
    digests = (sha256(box).digest() for box in boxes)
    return Parcel(context.sender, identity.sign(signed_text(context, *digests)), *boxes)


def _reader(raw: object) -> Reader:
    if not isinstance(raw, bytes):
        raise InvalidReply("a part of a parcel is bytes")
    return Reader(raw)
