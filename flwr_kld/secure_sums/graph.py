"""The graph of a secure sum: who shares secrets with whom, and how many neighbours suffice.

A ring of neighbours in public random order; exact tails of who happens to stand beside whom.
Proof note: ``docs/proofs/secure-aggregation.md``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from flwr_kld.common.errors import ThresholdTooLow, TooFewNeighbours
from flwr_kld.guard.secure_sum_policy import FEWEST_NEIGHBOURS, MOST_BITS, Collusion
from flwr_kld.kernel.arguments import choice, finite, integer, set_fields


@dataclass(frozen=True)
class Shape:
    """Number of neighbours k and of shares t that open a secret."""

    neighbours: int
    threshold: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            neighbours=integer("neighbours", self.neighbours, least=0),
            threshold=integer("threshold", self.threshold, least=0),
        )

    def require_ring(self, cohort: int) -> None:
        """Refuse what is not a graph over a cohort, or one whose secrets a minority opens."""
        k, t = self.neighbours, self.threshold
        if not 1 <= k < cohort or (k % 2 and k != cohort - 1):
            raise TooFewNeighbours(
                "the graph is not a ring: each client needs an even number of neighbours, or has "
                "all others"
            )
        if t < self.fewest_shares(k, cohort):
            raise ThresholdTooLow(
                f"{t} of {k + 1} holders are too few to open a secret: "
                f"{self.fewest_shares(k, cohort)} or more must"
            )
        if t > k + 1:
            raise TooFewNeighbours(f"{k + 1} holders can never gather {t} shares")

    @staticmethod
    def fewest_shares(neighbours: int, cohort: int) -> int:
        """Fewest shares that open a secret: a majority, or 3t > 2k + 3 on a circle."""
        # On a circle a server may tell clients of different regions different lists. Between two
        # that reveal for different lists at least 2t - k - 2 places reveal nothing; whoever stands
        # there then has fewer than t holders that do, so that no sum opens across.
        k = neighbours
        return (k + 1) // 2 + 1 if k == cohort - 1 else (2 * k + 3) // 3 + 1

    @property
    def confirmations(self) -> int:
        """Neighbours that must confirm a client's list of survivors before its reveal opens."""
        return self.threshold - 1


def ring_order(seed: bytes, cohort: int) -> NDArray[np.int64]:
    """Public order of the circle, from 32 bytes: cohort indices by place, shape [cohort]."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * cohort)), dtype="<u8")
    return np.argsort(words, kind="stable")


def offsets(cohort: int, neighbours: int) -> NDArray[np.int64]:
    """Places to each neighbour slot, shape [k]; slot s of one end is slot k−1−s of the other."""
    if neighbours == cohort - 1:
        return np.arange(1, cohort)
    half = neighbours // 2
    return np.concatenate([np.arange(1, half + 1), np.arange(-half, 0)])


def neighbours_of(order: NDArray[np.int64], index: int, neighbours: int) -> NDArray[np.int64]:
    """Cohort indices of one client's neighbours by slot, shape [k]."""
    place = int(np.flatnonzero(order == index)[0])
    found: NDArray[np.int64] = order[(place + offsets(len(order), neighbours)) % len(order)]
    return found


def neighbour_table(order: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """Neighbours of every client, shape [cohort, k]."""
    n = len(order)
    table = np.empty((n, neighbours), dtype=np.int64)
    table[order] = order[(np.arange(n)[:, None] + offsets(n, neighbours)) % n]
    return table


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What a graph must withstand."""

    # γ: fraction of the cohort that works with the server, fixed before the order is drawn
    corrupted: float = 0.04
    dropout: float = 0.05  # δ: fraction that may drop out, independently of the order
    collusion: Collusion = Collusion.CURIOUS  # What the corrupted clients do
    # σ: a coalition succeeds with probability at most 2^−σ, over all clients
    security_bits: int = 40
    abort_bits: int = 30  # η = 2^−abort_bits: probability that δ dropouts make the check abort

    def __post_init__(self) -> None:
        set_fields(
            self,
            corrupted=finite("corrupted", self.corrupted, least=0, below=1),
            dropout=finite("dropout", self.dropout, least=0, below=1),
            collusion=choice("collusion", self.collusion, Collusion),
            security_bits=integer("security_bits", self.security_bits, least=1, most=MOST_BITS),
            abort_bits=integer("abort_bits", self.abort_bits, least=1, most=MOST_BITS),
        )


def tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """Exact P[at least `least` marked] among `drawn` of `population` without replacement."""
    top = min(marked, drawn)
    if least <= max(0, drawn - (population - marked)):
        return Fraction(1)
    if least > top:
        return Fraction(0)
    plain = population - marked
    ways = math.comb(marked, least) * math.comb(plain, drawn - least)
    total = 0
    for hit in range(least, top + 1):
        total += ways
        ways = ways * (marked - hit) * (drawn - hit) // ((hit + 1) * (plain - drawn + hit + 1))
    return Fraction(total, math.comb(population, drawn))


def leak_probability(cohort: int, shape: Shape, tolerance: Tolerance) -> Fraction:
    """Bound, over all clients, the probability that the order serves a coalition."""
    # `CURIOUS`: some client has t corrupted neighbours. `LYING`: in addition, some client's
    # neighbourhood could confirm two lists (2t ≤ m + X), t of it lie on one side of a cut through
    # the circle, or two regions of it that were told two lists open one sum (3t ≤ 2k + 3 + 2X, over
    # both their neighbourhoods).
    k, t = shape.neighbours, shape.threshold
    corrupted = math.floor(tolerance.corrupted * cohort)
    if k == cohort - 1:  # everybody is a neighbour: nothing is left to chance
        needed = 2 * t - cohort if tolerance.collusion is Collusion.LYING else t
        return Fraction(int(corrupted >= needed))
    gathered = tail(cohort - 1, corrupted, k, t)
    if tolerance.collusion is Collusion.CURIOUS:
        return cohort * gathered
    twice = tail(cohort - 1, corrupted, k, 2 * t - k - 1)
    beside = tail(cohort - 1, corrupted, k // 2, t - k // 2 - 1)
    between = tail(cohort - 1, corrupted, min(2 * k, cohort - 1), (3 * t - 2 * k - 2) // 2)
    return cohort * (gathered + twice + 2 * beside + between)


def abort_probability(cohort: int, shape: Shape, tolerance: Tolerance) -> Fraction:
    """Bound the probability that δ dropouts leave a client fewer than t neighbours."""
    dropped = math.floor(tolerance.dropout * cohort)
    least = shape.neighbours - shape.threshold + 1
    return cohort * tail(cohort - 1, dropped, shape.neighbours, least)


def require_secure(cohort: int, shape: Shape, tolerance: Tolerance) -> None:
    """Refuse a graph that is weaker than `tolerance`; dropouts are the server's concern."""
    shape.require_ring(cohort)
    if leak_probability(cohort, shape, tolerance) * 2**tolerance.security_bits > 1:
        raise TooFewNeighbours(
            f"{shape.neighbours} neighbours with threshold {shape.threshold} do not withstand "
            f"a corrupted fraction of "
            f"{tolerance.corrupted:g} ({tolerance.collusion}) at {tolerance.security_bits} bits"
        )


def least_threshold(cohort: int, k: int, tolerance: Tolerance) -> int:
    """Return the smallest sound t of k + 1 holders that leaks with at most 2^−σ, or k + 2."""
    fewest = Shape.fewest_shares(k, cohort)

    def sound(t: int) -> bool:
        leak = leak_probability(cohort, Shape(k, t), tolerance)
        return bool(leak * 2**tolerance.security_bits <= 1)

    return fewest + bisect_left(range(fewest, k + 2), True, key=sound)


def choose_shape(cohort: int, tolerance: Tolerance) -> Shape:
    """Return the fewest neighbours that withstand `tolerance`; everybody if no fewer do."""
    return _fewest(integer("cohort", cohort, least=2, unit="clients"), tolerance)


@lru_cache(maxsize=64)
def _fewest(cohort: int, tolerance: Tolerance) -> Shape:
    liars = replace(tolerance, collusion=Collusion.LYING)
    for k in range(FEWEST_NEIGHBOURS, cohort - 1, 2):
        for stated in (liars, tolerance):  # withstand liars wherever that costs nothing
            shape = Shape(k, least_threshold(cohort, k, stated))
            if abort_probability(cohort, shape, tolerance) * 2**tolerance.abort_bits <= 1:
                return shape
    corrupted = math.floor(tolerance.corrupted * cohort)
    alive = cohort - math.floor(tolerance.dropout * cohort)
    threshold = max(cohort // 2 + 1, min((cohort + corrupted) // 2 + 1, alive))
    shape = Shape(cohort - 1, threshold)
    if threshold > alive or leak_probability(cohort, shape, tolerance):
        raise ValueError(
            f"no threshold among {cohort} clients withstands a corrupted fraction of "
            f"{tolerance.corrupted:g} ({tolerance.collusion}) and {tolerance.dropout:g} dropouts"
        )
    return shape
