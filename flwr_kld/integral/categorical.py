"""Exact draws from a finite law given by 128-bit integers: one vectorised search, no floats.

Proof note: ``docs/proofs/exact-draws.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.integral.secret import Secret
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.table import TOTAL, TOTAL_BITS


class Categorical(Secret):
    """A law on symbols 0..n-1 with ``P(i) = weights[i] / 2**128``. Shows no weight.

    Parameters
    ----------
    weights : Sequence[int]
        Two or more positive integers that sum to 2**128.

    Raises
    ------
    ValueError
        If they do not.
    """

    __slots__ = ("_bounds", "_high")

    def __init__(self, weights: Sequence[int]) -> None:
        if len(weights) < 2 or min(weights) <= 0 or sum(weights) != TOTAL:
            raise ValueError("a law needs two or more positive weights that sum to 2**128")
        self._bounds = list(accumulate(weights))
        inner = self._bounds[:-1]  # the last bound, 2**128, exceeds every number drawn
        self._high = np.array([bound >> 64 for bound in inner], dtype=np.uint64)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` independent symbols, shape [size].

        A draw is a uniform 128-bit number; its symbol is the first whose cumulative weight exceeds
        it. The high 64 bits decide, except where they equal a bound's: there the low bits are drawn
        as well and all bounds compared exactly.
        """
        words = bits.words(size)
        symbol = np.searchsorted(self._high, words, side="right").astype(np.int64)
        for i in np.flatnonzero(self._high[np.maximum(symbol - 1, 0)] == words):
            number = (int(words[i]) << 64) | int(bits.words(1)[0])
            symbol[i] = bisect_right(self._bounds, number)
        return symbol


def integer_weights(mass: NDArray[np.float64]) -> tuple[int, ...]:
    """Round positive masses that sum to 1 to integers >= 1 that sum to 2**128, shape [n]."""
    weights = [max(1, int(w)) for w in np.ldexp(mass, TOTAL_BITS).tolist()]
    weights[int(np.argmax(mass))] += TOTAL - sum(weights)
    return tuple(weights)
