"""What a client does to a class before it leaves: a finite channel in exact integers.

Sampler, privacy check and server-side likelihood read the same integers.
Proof note: ``docs/proofs/ldp-channels.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import numpy as np

from flwr_kld.arguments import real, whole
from flwr_kld.predictors.laws import Floats
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.hockey_stick import exp_below
from flwr_kld.privacy.sampler import uniform_128
from flwr_kld.privacy.table import TOTAL


class Channel(ABC):
    """Classes in, symbols out: ``P(symbol z | class c) = weight(c, z) / 2**128``.

    Parameters
    ----------
    classes, symbols : int
        C and S.
    epsilon : float
        In nats; every symbol is at most ``e**epsilon`` times as likely from one class as from
        another.
    """

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

    @abstractmethod
    def push(self, mass: Floats) -> Floats:
        """Law of the symbol when the class follows `mass`: [..., C] → [..., S].

        Rounded to float64; for likelihoods, not for privacy.
        """


def check_private(ratio: Fraction, epsilon: float) -> None:
    """Raise ValueError unless a likelihood ratio is at most a rational below ``e**epsilon``."""
    if ratio > exp_below(epsilon):
        raise ValueError("the channel is not epsilon-private: its likelihood ratio is too large")


class MatrixChannel(Channel):
    """A channel given by its matrix.

    Parameters
    ----------
    rows : Sequence[Sequence[int]]
        [C][S] positive integers; each row sums to 2**128.
    epsilon : float
        In nats.

    Raises
    ------
    ValueError
        If the matrix is malformed, or one symbol is more than ``e**epsilon`` times as likely from
        one class as from another.
    """

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
