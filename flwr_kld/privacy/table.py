"""The law of one integer noise draw, as exact integers.

Sampler and accountant read the same `NoiseTable`, so what is sampled is what is accounted for.
Proof note: ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import keep, several, whole

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
        keep(
            self,
            weights=several("weights", self.weights),
            tail=whole("tail", self.tail),
            tail_ratio=whole("tail_ratio", self.tail_ratio),
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
        return np.array([w / TOTAL for w in self.weights])

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
