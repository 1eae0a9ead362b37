"""The messages of secure aggregation, phase by phase, and how each is written and read.

A client's messages carry its cohort index and its Ed25519 signature over session, kind, index and
content. The server's carry none: nothing that it says is believed without the clients' own keys.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, TypeAlias

import numpy as np

from flwr_kld.common.canonical_bytes import MAGIC, Reader, Slots, number
from flwr_kld.common.errors import Malformed
from flwr_kld.common.identity import SIGNATURE
from flwr_kld.secure_sums.keys import CONFIRMATION, PUBLIC, SEAL_OVERHEAD
from flwr_kld.secure_sums.shamir import SHARE

SESSION_TAG = 16
COMMITMENT = 32
UNSIGNED = b""
"""In place of the signature, while there is none."""
LOCK = np.dtype([("lock", "u1", CONFIRMATION), ("confirmation", "u1", CONFIRMATION)])
"""For a surviving neighbour: the lock that it opens, and what opens its own."""
BOX = 2 * SHARE + SEAL_OVERHEAD
"""Bytes of the sealed shares of both secrets."""
ADVERT = np.dtype(
    [("mask_key", f"V{PUBLIC}"), ("seal_key", f"V{PUBLIC}"), ("signature", f"V{SIGNATURE}")]
)
"""An advert as the server passes it on."""


class Phase(IntEnum):
    """The phases of a sum; a client's is the next one that it answers."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    REVEAL = 3
    DONE = 4
    REFUSED = 5
    """Something was wrong; this object answers nothing more."""


def signed_text(session: bytes, kind: int, sender: int, body: bytes) -> bytes:
    """Return what a client signs: bound to the session's digest, kind and sender."""
    head = b"flwr-kld secure-sum 2 message\0" + bytes([kind]) + session + number(sender)
    return head + hashlib.sha256(body).digest()


@dataclass(frozen=True)
class _Message:
    kind: ClassVar[int]
    session: bytes

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> _Message:
        """Read the message from its header's end on."""
        raise NotImplementedError

    def body(self) -> bytes:
        """Content without header and signature."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Write the message."""
        return MAGIC + bytes([self.kind]) + self.session + self.body()


@dataclass(frozen=True)
class _Signed(_Message):
    sender: int
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the message."""
        head = MAGIC + bytes([self.kind]) + self.session + number(self.sender)
        return head + self.body() + self.signature


@dataclass(frozen=True)
class Advert(_Signed):
    """Phase 0, client: its one-use public keys, for masking and for sealing."""

    kind: ClassVar[int] = 1
    phase: ClassVar[Phase] = Phase.ADVERTISE
    mask_key: bytes
    seal_key: bytes

    def body(self) -> bytes:
        """Both keys."""
        return self.mask_key + self.seal_key

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> Advert:
        sender, mask_key, seal_key = r.number(), r.take(PUBLIC), r.take(PUBLIC)
        return cls(session, sender, r.take(SIGNATURE), mask_key, seal_key)


@dataclass(frozen=True)
class Adverts(_Message):
    """Phase 1, server: the adverts (keys and signature) of the client's neighbours."""

    kind: ClassVar[int] = 2
    adverts: Slots

    def body(self) -> bytes:
        """Slots of 128 bytes."""
        return self.adverts.to_bytes()

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> Adverts:
        return cls(session, Slots.read(r, ADVERT.itemsize))


@dataclass(frozen=True)
class SealedShares(_Signed):
    """Phase 1, client: shares of its seed and mask key, sealed for each neighbour."""

    kind: ClassVar[int] = 3
    phase: ClassVar[Phase] = Phase.SHARE
    commitment: bytes
    boxes: Slots

    def body(self) -> bytes:
        """Digest that the seed is held against, then slots of 84 bytes."""
        return self.commitment + self.boxes.to_bytes()

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> SealedShares:
        sender, commitment, boxes = r.number(), r.take(COMMITMENT), Slots.read(r, BOX)
        return cls(session, sender, r.take(SIGNATURE), commitment, boxes)


@dataclass(frozen=True)
class Deliveries(_Message):
    """Phase 2, server: the boxes that the client's neighbours sealed for it."""

    kind: ClassVar[int] = 4
    boxes: Slots

    def body(self) -> bytes:
        """Slots of 84 bytes."""
        return self.boxes.to_bytes()

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> Deliveries:
        return cls(session, Slots.read(r, BOX))


@dataclass(frozen=True)
class MaskedVector(_Signed):
    """Phase 2, client: its vector under all its masks, little-endian words."""

    kind: ClassVar[int] = 5
    phase: ClassVar[Phase] = Phase.MASK
    values: bytes = field(repr=False)

    def body(self) -> bytes:
        """Length in bytes, then the words."""
        return number(len(self.values)) + self.values

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> MaskedVector:
        sender, values = r.number(), r.take(r.number())
        return cls(session, sender, r.take(SIGNATURE), values)


@dataclass(frozen=True)
class Survivors(_Message):
    """Phase 3, server: whose vectors are in the sum, a bitmap over the cohort."""

    kind: ClassVar[int] = 6
    size: int
    alive: bytes

    def body(self) -> bytes:
        """Cohort size, then the bitmap."""
        return number(self.size) + self.alive

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> Survivors:
        size = r.number()
        return cls(session, size, r.bits(size))


@dataclass(frozen=True)
class Reveal(_Signed):
    """Phase 3, client: what opens the sum over this list, locked until neighbours confirm it."""

    # Sealed are a share of its own seed, then, for each neighbour whose shares it holds, in slot
    # order, that of its seed if it is on the list, else that of its mask key. With each surviving
    # neighbour's lock comes the client's own confirmation, which opens that neighbour's.

    kind: ClassVar[int] = 7
    phase: ClassVar[Phase] = Phase.REVEAL
    survivors: bytes
    locks: Slots
    sealed: bytes = field(repr=False)

    def body(self) -> bytes:
        """Digest of the list, slots of 34 bytes, then length in bytes and the sealed shares."""
        return self.survivors + self.locks.to_bytes() + number(len(self.sealed)) + self.sealed

    @classmethod
    def _read(cls, r: Reader, session: bytes) -> Reveal:
        sender, survivors, locks = r.number(), r.take(32), Slots.read(r, LOCK.itemsize)
        sealed = r.take(r.number())
        return cls(session, sender, r.take(SIGNATURE), survivors, locks, sealed)


Message: TypeAlias = (
    Advert | Adverts | SealedShares | Deliveries | MaskedVector | Survivors | Reveal
)
ClientMessage: TypeAlias = Advert | SealedShares | MaskedVector | Reveal
ServerMessage: TypeAlias = Adverts | Deliveries | Survivors

_KINDS: dict[int, type[Message]] = {
    message.kind: message
    for message in (
        Advert,
        Adverts,
        SealedShares,
        Deliveries,
        MaskedVector,
        Survivors,
        Reveal,
    )
}


def decode(data: bytes) -> Message:
    """Read a message."""
    reader = Reader(data)
    if reader.take(4) != MAGIC:
        raise Malformed("not a message of a secure sum, or one of another version")
    kind = _KINDS.get(reader.number(1))
    if kind is None:
        raise Malformed("the message is of an unknown kind")
    message = kind._read(reader, reader.take(SESSION_TAG))
    reader.end()
    return message
