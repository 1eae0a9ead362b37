"""Exact draws from a finite law given by 128-bit integers.

Proof note: ``docs/proofs/integral.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import TOTAL, TOTAL_BITS, BitSource, Cumulative
from flwr_kld.kernel.vector import Private


class Categorical(Private):
    """A law on symbols 0..n-1 with ``P(i) = weights[i] / 2**128``. Shows no weight."""

    __slots__ = ("_cumulative",)

    def __init__(self, weights: Sequence[int]) -> None:
        if len(weights) < 2 or min(weights) <= 0 or sum(weights) != TOTAL:
            raise ValueError("a law needs two or more positive weights that sum to 2**128")
        self._cumulative = Cumulative(weights)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` independent symbols, shape [size]."""
        return self._cumulative.draw(size, bits)


def integer_weights(mass: NDArray[np.float64]) -> tuple[int, ...]:
    """Round positive masses that sum to 1 to integers >= 1 that sum to 2**128, shape [n]."""
    weights = [max(1, int(w)) for w in np.ldexp(mass, TOTAL_BITS).tolist()]
    weights[int(np.argmax(mass))] += TOTAL - sum(weights)
    return tuple(weights)
