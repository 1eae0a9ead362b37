"""Laws of integer noise, exactly: tables of 128-bit weights, draws from them, and their sums.

Sampler and verifier read the same `NoiseTable`, so what is drawn is what is accounted for. Draws
search cumulative weights with random words of the operating system; there are no floats.
Proof notes: ``docs/proofs/noise.md``, ``docs/proofs/integral.md`` and, for sums,
``docs/proofs/noise-shares.md``.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import as_tuple, integer, set_fields

TOTAL_BITS = 128
TOTAL = 1 << TOTAL_BITS
RATIO_BITS = 64


@dataclass(frozen=True)
class NoiseTable:
    """Symmetric integer noise Z with exactly known probabilities.

    For ``|k| <= W``, ``P(Z = k) = weights[k + W] / 2**128``. The weight `tail` lies beyond W, half
    on each side, falling geometrically: ``P(|Z| = k + 1) / P(|Z| = k) = tail_ratio / 2**64`` for
    ``k > W``. Laws of bounded support have ``tail = 0``.

    Parameters
    ----------
    weights : tuple[int, ...]
        ``2W + 1`` positive integers, symmetric about the middle.
    tail : int
        Even; ``sum(weights) + tail == 2**128``.
    tail_ratio : int
        In ``[0, 2**64)``; 0 exactly when `tail` is 0.

    Raises
    ------
    ValueError
        If any of this does not hold.
    """

    weights: tuple[int, ...]
    tail: int = 0
    tail_ratio: int = 0

    def __post_init__(self) -> None:
        set_fields(
            self,
            weights=as_tuple("weights", self.weights),
            tail=integer("tail", self.tail),
            tail_ratio=integer("tail_ratio", self.tail_ratio),
        )
        if set(map(type, self.weights)) != {int}:  # NumPy's hold no 128 bits
            raise ValueError("noise weights must be Python's integers")
        if len(self.weights) % 2 == 0 or self.weights != self.weights[::-1]:
            raise ValueError("noise weights must be symmetric about zero")
        if min(self.weights) <= 0:
            raise ValueError("noise weights must be positive inside the table")
        if self.tail < 0 or self.tail % 2 or sum(self.weights) + self.tail != TOTAL:
            raise ValueError("noise weights and (even) tail must sum to 2**128")
        if not 0 <= self.tail_ratio < 1 << RATIO_BITS or (self.tail > 0) != (self.tail_ratio > 0):
            raise ValueError("tail_ratio must be in (0, 2**64) exactly when there is a tail")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # of some thousand weights: what is made of a table is kept by it
        return hash((self.weights, self.tail, self.tail_ratio))

    def __repr__(self) -> str:
        return f"NoiseTable(reach={self.reach}, standard_deviation={self.variance**0.5:.4g})"

    @property
    def reach(self) -> int:
        """W: the largest |k| inside the table."""
        return len(self.weights) // 2

    def probability(self, k: int) -> Fraction:
        """P(Z = k), exactly."""
        beyond = abs(k) - self.reach
        if beyond <= 0:
            return Fraction(self.weights[k + self.reach], TOTAL)
        ratio = Fraction(self.tail_ratio, 1 << RATIO_BITS)
        return Fraction(self.tail, 2 * TOTAL) * (1 - ratio) * ratio ** (beyond - 1)

    @cached_property
    def support(self) -> NDArray[np.int64]:
        """The integers -W..W, int64 [2W + 1]."""
        return np.arange(-self.reach, self.reach + 1)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """``P(Z = k)`` over `support`, rounded to float64; for estimators, not for privacy."""
        return np.array(self.weights, np.float64) / float(TOTAL)

    @cached_property
    def variance(self) -> float:
        """Var Z, in squared counts (the tail's share is below float64's resolution)."""
        return float(self.support.astype(float) ** 2 @ self.probabilities)

    @cached_property
    def step_ratio(self) -> Fraction | None:
        """Largest ``P(Z = k) / P(Z = k ± 1)`` over all integers k; None where it is unbounded.

        If it is at most ``e**(eps / d)``, adding Z to each coordinate of an integer vector is
        eps-differentially private for any change of l1 norm at most d.
        """
        if not self.tail:
            return None
        reach = self.reach
        large, small = 1, 1
        for pair in zip(self.weights[:reach], self.weights[1:], strict=False):
            low, high = sorted(pair)
            if high * small > large * low:  # a fraction each would take most of the time
                large, small = high, low
        edge = self.probability(reach) / self.probability(reach + 1)
        return max(
            Fraction(large, small), edge, 1 / edge, Fraction(1 << RATIO_BITS, self.tail_ratio)
        )


class BitSource(Protocol):
    """A stream of independent uniform 64-bit words."""

    private: bool
    """Whether nobody else can predict the words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        ...


class SystemBits:
    """The operating system's generator, asked anew for every word.

    It keeps no state here: a forked process, a copy, a pickle or a second thread finds none to
    share, so no two of them ever draw the same noise.
    """

    private = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words that were never returned before, uint64 [count]."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededBits:
    """Reproducible bits for simulations. They protect nobody, and the report says so."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(integer("seed", seed, least=0)))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)


def uniform_128(bits: BitSource) -> int:
    """Return a uniform integer in 0 .. 2**128 - 1."""
    high, low = bits.words(2).tolist()
    return (int(high) << 64) | int(low)


class Cumulative:
    """Cumulative weights ``C_0 < C_1 < … <= 2**128``, in units of 2**-128.

    Parameters
    ----------
    weights : Iterable[int]
        Positive integers that sum to 2**128 or less.
    """

    __slots__ = ("_bounds", "_high")

    def __init__(self, weights: Iterable[int]) -> None:
        self._bounds = list(accumulate(weights))
        # The high word of 2**128 does not fit: it is left out, as it exceeds every number drawn.
        inner = self._bounds[:-1] if self._bounds[-1] == TOTAL else self._bounds
        self._high = np.array([bound >> 64 for bound in inner], dtype=np.uint64)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` independent places, each with its weight; shape [size].

        A draw is a uniform 128-bit number; its place is the first whose cumulative weight exceeds
        it, or one beyond the last. The high 64 bits decide, except where they equal a bound's:
        there the low bits are drawn as well and all bounds compared exactly.
        """
        words = bits.words(size)
        place = np.searchsorted(self._high, words, side="right").astype(np.int64)
        for i in np.flatnonzero(self._high[np.maximum(place - 1, 0)] == words):
            number = (int(words[i]) << 64) | int(bits.words(1)[0])
            place[i] = bisect_right(self._bounds, number)
        return place


@lru_cache(maxsize=32)
def _cumulative(table: NoiseTable) -> Cumulative:
    return Cumulative(table.weights)


def sample(table: NoiseTable, size: int, bits: BitSource) -> NDArray[np.int64]:
    """Draw `size` independent values of Z.

    Returns
    -------
    NDArray[np.int64]
        Shape [size], in counts.
    """
    cell = _cumulative(table).draw(integer("size", size, least=0), bits)
    draws = cell - table.reach
    for i in np.flatnonzero(cell == len(table.weights)) if table.tail else ():
        draws[i] = _tail_draw(table, bits)
    return draws


def _tail_draw(table: NoiseTable, bits: BitSource) -> int:
    """One draw of Z given ``|Z| > W``: a fair sign and a geometric number of further steps."""
    magnitude = table.reach + 1
    while int(bits.words(1)[0]) < table.tail_ratio:
        magnitude += 1
    return magnitude if int(bits.words(1)[0]) & 1 else -magnitude


_WIDTH = len(str(TOTAL * TOTAL))
"""Decimal digits that hold any coefficient of a product of two laws."""


@lru_cache(maxsize=32)
def noise_sum(share: NoiseTable, copies: int) -> NoiseTable:
    """Law of the sum of `copies` independent draws from `share`, from below.

    Parameters
    ----------
    share : NoiseTable
        What each client adds.
    copies : int
        Number of copies, >= 1.

    Returns
    -------
    NoiseTable
        Whose weights are lower bounds of the true probabilities. What the rounding lost (some
        ``copies × cells / 2**128``) and the mass of tails are booked as its tail, so accountants
        count it into delta; where in the tail it lies is not claimed.

    Raises
    ------
    ValueError
        If `copies` is below 1.
    """
    copies = integer("copies", copies, least=1)
    if copies == 1:
        return share
    power, law = list(share.weights), None
    while True:
        if copies & 1:
            law = power if law is None else _product(law, power)
        copies >>= 1
        if not copies:
            break
        power = _product(power, power)
    return _from_below(law or power)


def _product(a: list[int], b: list[int]) -> list[int]:
    """Convolve two symmetric laws: weights are rounded down, zeros at the ends cut off."""
    cells = len(a) + len(b) - 1
    middle = cells // 2
    first = _joined(a)
    second = first if a is b else _joined(b)
    with localcontext(prec=_WIDTH * (cells + 1), Emax=MAX_EMAX):
        long = str(first * second).zfill(_WIDTH * cells)
    right = []  # the half from 0 upwards
    for i in range(_WIDTH * middle, _WIDTH * cells, _WIDTH):
        weight = int(long[i : i + _WIDTH]) >> TOTAL_BITS
        if not weight:
            break
        right.append(weight)
    return right[:0:-1] + right


def _joined(weights: list[int]) -> Decimal:
    return Decimal("".join([f"{w:0{_WIDTH}d}" for w in weights]))


def _from_below(weights: list[int]) -> NoiseTable:
    lost = TOTAL - sum(weights)
    weights[len(weights) // 2] -= lost % 2  # a tail is even
    lost += lost % 2
    return NoiseTable(tuple(weights), lost, 1 if lost else 0)


def to_counts(values: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Round values in grid steps, shape [cells], to whole counts."""
    return np.floor_divide(values + grid // 2, grid)
