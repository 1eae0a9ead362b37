"""Exact draws by inversion of 128-bit cumulative weights: one vectorised search, no floats.

Proof note: ``docs/proofs/exact-draws.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.table import TOTAL


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
