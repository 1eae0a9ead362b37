"""What everybody signs: the public parameters of a sum, or of two with one set-up of keys."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.kernel.channels import check_bits
from flwr_kld.secure_aggregation.errors import Malformed, ThresholdTooLow
from flwr_kld.secure_aggregation.graph import Shape, ring_order
from flwr_kld.secure_aggregation.identity import Roster
from flwr_kld.secure_aggregation.tolerance import Tolerance, choose_shape
from flwr_kld.secure_aggregation.wire import (
    MAGIC,
    MOST_SUMS,
    Reader,
    number,
    pack_bits,
    text,
    unpack_bits,
)

_KIND = 0
_DIGEST = 32
_LONGEST_TEXT = 255
_LONGEST_VECTOR = 1 << 28
_SPARSE = 16  # a roster this many times the cohort: positions are shorter than a bitmap


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
    bits: int  # 32 or 64: the sum is modulo 2^bits
    length: int  # Numbers in a vector
    shape: Shape  # Neighbours of each client, and shares that open a secret
    min_survivors: int  # Fewest clients that the sum may hold; more than half of the cohort
    sums: int = 1  # 1, or 2 where keys are set up for a second sum over the survivors, too
    # Of a second sum: the digest of the first one's session, and of its list of survivors
    follows: bytes = b""

    def __post_init__(self) -> None:
        positions = np.asarray(self.cohort)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise Malformed("a cohort must be a list of positions in the roster")
        keep(
            self,
            listed=whole("listed", self.listed, least=0),
            cohort=tuple(positions.tolist()),
            bits=check_bits(self.bits),
            length=whole("length", self.length),
            min_survivors=whole("min_survivors", self.min_survivors),
            sums=whole("sums", self.sums, least=1, most=MOST_SUMS),
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
        if not n < 2 * self.min_survivors <= 2 * n:
            raise ThresholdTooLow("the survivors of a sum must be more than half of its cohort")
        if len(self.follows) not in (0, 2 * _DIGEST) or (self.follows and self.sums != 1):
            raise Malformed("a session follows at most one other, which follows none")

    @classmethod
    def open(
        cls,
        roster: Roster,
        cohort: list[str],
        *,
        check: str,
        terms: str,
        length: int,
        bits: int = 32,
        tolerance: Tolerance | None = None,
        shape: Shape | None = None,
        min_survivors: int = 0,
        sums: int = 1,
    ) -> Session:
        """Set up a sum over named clients of the roster."""
        positions = tuple(sorted(roster.position(name) for name in cohort))
        n = len(positions)
        shape = shape or choose_shape(n, tolerance or Tolerance())
        least = max(min_survivors, n // 2 + 1, min(n, 3))
        who = roster.fingerprint, len(roster), positions
        return cls(check, terms, *who, bits, length, shape, least, sums)

    def following(self, alive: bytes, *, check: str, terms: str, length: int) -> Session:
        """Return the session of the second sum over the survivors (bitmap) of this one."""
        follows = self.digest + self.survivors_digest(alive)
        return replace(self, check=check, terms=terms, length=length, sums=1, follows=follows)

    @property
    def size(self) -> int:
        """n, clients in the cohort."""
        return len(self.cohort)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        return hashlib.sha256(b"flwr-kld secure-sum 2 session\0" + self.to_bytes()).digest()

    @property
    def confirmations(self) -> int:
        """Neighbours that must confirm a client's list of survivors before its reveal opens."""
        return self.shape.confirmations

    @property
    def tag(self) -> bytes:
        """First half of the digest: names the session in messages."""
        return self.digest[:16]

    @property
    def origin(self) -> bytes:
        """Digest of the session that set up the keys: this one, or the one that it follows."""
        return self.follows[:_DIGEST] or self.digest

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Places around the circle, drawn from the digest of the session that set up the keys."""
        seed = hashlib.sha256(b"flwr-kld secure-sum 2 circle\0" + self.origin).digest()
        return ring_order(seed, self.size)

    def survivors_digest(self, alive: bytes) -> bytes:
        """SHA-256 of a list of survivors (bitmap over the cohort) in this session."""
        return hashlib.sha256(b"flwr-kld secure-sum 2 alive\0" + self.digest + alive).digest()

    def to_bytes(self) -> bytes:
        """Write the parameters; also the first message to each client."""
        cohort = np.array(self.cohort, dtype="<u4")
        if self.listed <= _SPARSE * self.size:
            mask = np.zeros(self.listed, dtype=bool)
            mask[cohort] = True
            members = pack_bits(mask)
        else:
            members = cohort.tobytes()
        head = MAGIC + bytes([_KIND, self.bits, self.sums, len(self.follows)]) + self.follows
        head += text(self.check) + text(self.terms) + self.roster
        sizes = (self.length, self.shape.neighbours, self.shape.threshold, self.min_survivors)
        numbers = b"".join(map(number, (*sizes, self.listed, self.size)))
        return head + numbers + members

    @classmethod
    def from_bytes(cls, data: bytes) -> Session:
        """Read `to_bytes`."""
        reader = Reader(data)
        if reader.take(4) != MAGIC or reader.number(1) != _KIND:
            raise Malformed("not the opening of a secure sum, or one of another version")
        bits, sums, follows = reader.number(1), reader.number(1), reader.take(reader.number(1))
        check, terms, roster = reader.text(), reader.text(), reader.take(32)
        length, neighbours, threshold, least, listed, n = (reader.number() for _ in range(6))
        if listed <= _SPARSE * n:
            positions = np.flatnonzero(unpack_bits(reader.bits(listed), listed))
        else:
            positions = np.frombuffer(reader.take(4 * n), dtype="<u4").astype(np.int64)
        reader.end()
        if len(positions) != n or bits not in (32, 64) or sums not in (1, MOST_SUMS):
            raise Malformed("the session's ring, or its number of clients or sums, is wrong")
        shape = Shape(neighbours, threshold)
        cohort = tuple(positions.tolist())
        sizes = bits, length, shape, least
        return cls(check, terms, roster, listed, cohort, *sizes, sums, follows)
