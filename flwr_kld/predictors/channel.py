"""What a client does to a class before it leaves: finite channels in exact integers.

Sampler, privacy check and server-side likelihood read the same integers.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from typing import ClassVar

import numpy as np

from flwr_kld.kernel.arguments import real, whole
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, BitSource, uniform_128
from flwr_kld.predictors.laws import Floats

MOST_CLASSES = 14
"""Keeps the matrix small (at most 14 × 3,432); more labels are hashed to this many classes."""
_SLACK = Fraction(1, 1 << 60)


class Channel(ABC):
    """Classes in, symbols out: ``P(symbol z | class c) = weight(c, z) / 2**128``."""

    kind: ClassVar[str]

    def __init__(self, classes: int, symbols: int, epsilon: float) -> None:
        self.classes = whole("classes", classes, least=2)
        self.symbols = symbols
        self.epsilon = real("epsilon", epsilon, above=0, unit="nats")

    @abstractmethod
    def weight(self, true: int, symbol: int) -> int:
        """``2**128 P(symbol | true)``, exactly."""

    @abstractmethod
    def draw(self, true: int, bits: BitSource) -> int:
        """Draw the symbol that is reported for a class."""

    @property
    def contraction(self) -> float:
        """Total variation between the symbol's laws under any two classes, at most."""
        return math.tanh(self.epsilon / 2)

    @abstractmethod
    def push(self, mass: Floats) -> Floats:
        """Law of the symbol when the class follows `mass`: [..., C] → [..., S]."""
        # Rounded to float64; for likelihoods, not for privacy.


def check_private(ratio: Fraction, epsilon: float) -> None:
    """Raise ValueError unless a likelihood ratio is at most a rational below ``e**epsilon``."""
    if ratio > exp_below(epsilon):
        raise ValueError("the channel is not epsilon-private: its likelihood ratio is too large")


class MatrixChannel(Channel):
    """A channel given by its matrix of positive integers, [C][S]; each row sums to 2**128."""

    kind = "matrix"

    def __init__(self, rows: Sequence[Sequence[int]], epsilon: float) -> None:
        super().__init__(len(rows), len(rows[0]) if rows else 0, epsilon)
        self._rows = [tuple(row) for row in rows]
        if any(len(row) != self.symbols or sum(row) != TOTAL for row in self._rows):
            raise ValueError("each row of a channel must sum to 2**128 over the same symbols")
        columns = list(zip(*self._rows, strict=True))
        if any(min(column) <= 0 for column in columns):
            raise ValueError("each symbol of a channel must be possible from each class")
        check_private(max(Fraction(max(c), min(c)) for c in columns), epsilon)
        self._bounds = [tuple(accumulate(row)) for row in self._rows]

    def weight(self, true: int, symbol: int) -> int:
        """``2**128 P(symbol | true)``, exactly."""
        return self._rows[true][symbol]

    def draw(self, true: int, bits: BitSource) -> int:
        """Draw the symbol that is reported for a class."""
        return bisect_right(self._bounds[true], uniform_128(bits))

    def push(self, mass: Floats) -> Floats:
        """Law of the symbol when the class follows `mass`: [..., C] → [..., S]."""
        return np.asarray(mass @ self._matrix)

    @cached_property
    def _matrix(self) -> Floats:
        return np.array([[weight / TOTAL for weight in row] for row in self._rows])


class RandomisedResponse(Channel):
    """k-ary randomised response: the truth with one probability, each other class with another."""

    kind = "randomised-response"

    def __init__(self, classes: int, epsilon: float) -> None:
        super().__init__(classes, classes, epsilon)
        # other = ⌈2^128 / (r + C - 1)⌉ makes own = 2^128 - (C - 1) other at most r times other.
        self.other = math.ceil(TOTAL / (exp_below(epsilon) + classes - 1))
        self.own = TOTAL - (classes - 1) * self.other
        if self.own < self.other:
            raise ValueError("epsilon is too small for randomised response over so many classes")
        check_private(Fraction(self.own, self.other), epsilon)

    def weight(self, true: int, symbol: int) -> int:
        """``2**128 P(symbol | true)``, exactly."""
        return self.own if symbol == true else self.other

    def draw(self, true: int, bits: BitSource) -> int:
        """Draw the symbol that is reported for a class."""
        beyond = uniform_128(bits) - (self.own - self.other)
        return true if beyond < 0 else beyond // self.other  # C runs of `other`, one for the truth

    @property
    def contraction(self) -> float:
        """Total variation between the symbol's laws under any two classes."""
        return (self.own - self.other) / TOTAL

    def push(self, mass: Floats) -> Floats:
        """Law of the symbol when the class follows `mass`: [..., C] → [..., C]."""
        return (self.own - self.other) / TOTAL * mass + self.other / TOTAL


class SubsetSelection(MatrixChannel):
    """Report d classes, the true one more likely among them than it should be."""

    # Symbol s is the s-th subset of size d in lexicographic order. Ye and Barg 2018: order-optimal
    # for estimation at small and middle epsilon, where randomised response over many classes says
    # almost nothing.

    kind = "subset-selection"

    def __init__(self, classes: int, epsilon: float) -> None:
        classes = whole("classes", classes, least=2, most=MOST_CLASSES)
        epsilon = real("epsilon", epsilon, above=0, unit="nats")
        super().__init__(_rows(classes, epsilon), epsilon)


@lru_cache(maxsize=8)
def _rows(classes: int, epsilon: float) -> list[list[int]]:
    """Weights ∝ e**epsilon for subsets that hold the class, ∝ 1 for others, each sum 2**128."""
    ratio = exp_below(epsilon) * (1 - _SLACK)  # room for what rounding moves
    size = max(1, round(classes / (math.exp(min(epsilon, 700.0)) + 1)))
    holding = math.comb(classes - 1, size - 1)
    other = TOTAL / (ratio * holding + math.comb(classes - 1, size))
    subsets = list(combinations(range(classes), size))
    rows = [[int(other * ratio) if c in s else int(other) for s in subsets] for c in range(classes)]
    for row in rows:
        for symbol in range(TOTAL - sum(row)):  # fewer than there are symbols
            row[symbol] += 1
    return rows
