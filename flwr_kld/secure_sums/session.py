"""Public parameters of a secure sum, what all parties sign, and a client's seat in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common import errors
from flwr_kld.common.canonical_bytes import (
    MAGIC,
    Reader,
    Slots,
    number,
    pack_bits,
    text,
    unpack_bits,
)
from flwr_kld.common.errors import Malformed, ThresholdTooLow
from flwr_kld.common.identity import Identity, Roster
from flwr_kld.kernel.arguments import integer, set_fields
from flwr_kld.secure_sums import keys
from flwr_kld.secure_sums.graph import Shape, Tolerance, choose_shape, neighbours_of, ring_order
from flwr_kld.secure_sums.messages import (
    ADVERT,
    Advert,
    Adverts,
    ClientMessage,
    Survivors,
    signed_text,
)

_KIND = 0
_LONGEST_TEXT = 255
_LONGEST_VECTOR = 1 << 28


@dataclass(frozen=True)
class Session:
    """Public parameters of one sum. Its digest is in everything signed, derived or sealed."""

    check: str  # Random id of the check, fresh for each
    # Fingerprint of what its clients agree to: what is counted, and the noise that each adds
    terms: str
    roster: bytes  # Fingerprint of the pinned list of clients
    listed: int  # Length of that list
    # Positions in that list, rising; a client's place in this tuple is its *index*
    cohort: tuple[int, ...]
    length: int  # Numbers in a vector
    shape: Shape  # Neighbours of each client, and shares that open a secret
    min_clients: int  # Fewest clients that the sum may hold; more than half of the cohort

    def __post_init__(self) -> None:
        positions = np.asarray(self.cohort)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise Malformed("a cohort must be a list of positions in the roster")
        set_fields(
            self,
            listed=integer("listed", self.listed, least=0),
            cohort=tuple(positions.tolist()),
            length=integer("length", self.length),
            min_clients=integer("min_clients", self.min_clients),
        )
        n = len(self.cohort)
        if not (0 < len(self.check.encode()) <= _LONGEST_TEXT and len(self.terms) <= _LONGEST_TEXT):
            raise Malformed("a session needs a check id and terms of at most 255 bytes each")
        if len(self.roster) != 32 or not 0 < self.length <= _LONGEST_VECTOR:
            raise Malformed("the session's roster or vector length is out of range")
        if n < 2 or positions[0] < 0 or positions[-1] >= self.listed:
            raise Malformed("a cohort must have at least two clients, all of them in the roster")
        if (positions[1:] <= positions[:-1]).any():
            raise Malformed("a cohort must name each client once, in the roster's order")
        self.shape.require_ring(n)
        if not n < 2 * self.min_clients <= 2 * n:
            raise ThresholdTooLow("the survivors of a sum must be more than half of its cohort")

    @classmethod
    def open(
        cls,
        roster: Roster,
        cohort: list[str],
        *,
        check: str,
        terms: str,
        length: int,
        tolerance: Tolerance | None = None,
        shape: Shape | None = None,
        min_clients: int = 0,
    ) -> Session:
        """Set up a sum over named clients of the roster."""
        positions = tuple(sorted(roster.position(name) for name in cohort))
        n = len(positions)
        shape = shape or choose_shape(n, tolerance or Tolerance())
        least = max(min_clients, n // 2 + 1, min(n, 3))
        who = roster.fingerprint, len(roster), positions
        return cls(check, terms, *who, length, shape, least)

    @property
    def size(self) -> int:
        """n, clients in the cohort."""
        return len(self.cohort)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        return hashlib.sha256(b"flwr-kld secure-sum 2 session\0" + self.to_bytes()).digest()

    @property
    def tag(self) -> bytes:
        """First half of the digest: names the session in messages."""
        return self.digest[:16]

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Places around the circle, drawn from the digest."""
        seed = hashlib.sha256(b"flwr-kld secure-sum 2 circle\0" + self.digest).digest()
        return ring_order(seed, self.size)

    def survivors_digest(self, alive: bytes) -> bytes:
        """SHA-256 of a list of survivors (bitmap over the cohort) in this session."""
        return hashlib.sha256(b"flwr-kld secure-sum 2 alive\0" + self.digest + alive).digest()

    def to_bytes(self) -> bytes:
        """Write the parameters; also the first message to each client."""
        members = np.zeros(self.listed, dtype=bool)
        members[list(self.cohort)] = True
        head = MAGIC + bytes([_KIND]) + text(self.check) + text(self.terms) + self.roster
        sizes = (self.length, self.shape.neighbours, self.shape.threshold, self.min_clients)
        numbers = b"".join(map(number, (*sizes, self.listed, self.size)))
        return head + numbers + pack_bits(members)

    @classmethod
    def from_bytes(cls, data: bytes) -> Session:
        """Read `to_bytes`."""
        reader = Reader(data)
        if reader.take(4) != MAGIC or reader.number(1) != _KIND:
            raise Malformed("not the opening of a secure sum, or one of another version")
        check, terms, roster = reader.text(), reader.text(), reader.take(32)
        length, neighbours, threshold, least, listed, n = (reader.number() for _ in range(6))
        positions = np.flatnonzero(unpack_bits(reader.bits(listed), listed))
        reader.end()
        if len(positions) != n:
            raise Malformed("the session's number of clients is wrong")
        shape = Shape(neighbours, threshold)
        cohort = tuple(positions.tolist())
        return cls(check, terms, roster, listed, cohort, length, shape, least)


_Signed = TypeVar("_Signed", bound=ClientMessage)


@dataclass(frozen=True, eq=False)
class Seat:
    """Where a client stands on the circle."""

    session: Session  # Whose circle it is
    index: int  # The client's place in the cohort
    neighbours: NDArray[np.int64]  # Shape [k]: the neighbours' cohort indices, by slot
    identity: Identity = field(repr=False)  # Signs for the client

    @classmethod
    def of(cls, session: Session, index: int, identity: Identity) -> Seat:
        """Find the neighbours of one client of the cohort."""
        neighbours = neighbours_of(session.order, index, session.shape.neighbours)
        return cls(session, index, neighbours, identity)

    def signed(self, message: _Signed) -> _Signed:
        """Return this client's message with its signature."""
        text = signed_text(self.session.digest, message.kind, self.index, message.body())
        return replace(message, signature=self.identity.sign(text))

    def verified(self, adverts: Adverts, roster: Roster) -> list[Advert]:
        """Return the adverts of those neighbours that sent one, which their identities signed."""
        session = self.session
        members = self.neighbours[self.asked(adverts.adverts)].tolist()
        fields = np.frombuffer(adverts.adverts.data, ADVERT).tolist()
        theirs = [
            Advert(session.tag, peer, signature, mask_key, seal_key)
            for peer, (mask_key, seal_key, signature) in zip(members, fields, strict=True)
        ]
        for advert in theirs:
            text = signed_text(session.digest, advert.kind, advert.sender, advert.body())
            roster.verify(session.cohort[advert.sender], advert.signature, text)
        return theirs

    def slots(self, packed: bytes) -> NDArray[np.bool_]:
        """Read a bitmap over the neighbours, shape [k]."""
        return unpack_bits(packed, self.session.shape.neighbours)

    def asked(self, slots: Slots) -> NDArray[np.bool_]:
        """Which neighbours a server's message is about, shape [k]."""
        if slots.count != self.session.shape.neighbours:
            raise errors.Tampered("the message is not about this client's neighbours")
        return slots.mask()

    def require_neighbours(self, left: NDArray[np.bool_]) -> None:
        """Go on only with neighbours enough to confirm a list (`Shape.confirmations`)."""
        there, needed = int(left.sum()), self.session.shape.confirmations
        if there < needed:
            raise errors.TooFewSurvivors(
                f"{there} of this client's neighbours are left; {needed} are needed"
            )

    def surviving(self, survivors: Survivors, view: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which neighbours a list of survivors holds, shape [k], if it is one to confirm."""
        session = self.session
        if survivors.size != session.size:
            raise errors.Tampered("the list of survivors is not of this cohort")
        alive = unpack_bits(survivors.alive, session.size)
        if not alive[self.index]:
            raise errors.NotASurvivor("this client sent its vector, but the list leaves it out")
        if (left := int(alive.sum())) < session.min_clients:
            raise errors.CohortTooSmall(
                f"{left} survivors; the session promised {session.min_clients}"
            )
        beside: NDArray[np.bool_] = alive[self.neighbours]
        if (beside & ~view).any():
            raise errors.MissingMask("a surviving neighbour's mask is not in this client's vector")
        self.require_neighbours(beside)
        return beside


def confirmations(keys_of: list[bytes], survivors: bytes, by: list[int]) -> NDArray[np.uint8]:
    """Return the confirmations of a list under keys that pairs share, shape [senders, 17]."""
    found = [keys.confirmation(key, survivors, i) for key, i in zip(keys_of, by, strict=True)]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, keys.CONFIRMATION)
