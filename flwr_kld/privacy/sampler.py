"""Exact draws from random bits: uniform integers, weighted places, and noise from its table.

One vectorised search through cumulative weights of 128 bits, and no floats.
Proof notes: ``docs/proofs/exact-draws.md``, ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import whole
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.table import TOTAL, NoiseTable


def uniform_128(bits: BitSource) -> int:
    """Return a uniform integer in 0 .. 2**128 - 1."""
    high, low = bits.words(2).tolist()
    return (int(high) << 64) | int(low)


def uniform_below(bound: int, bits: BitSource) -> int:
    """Return a uniform integer in 0 .. bound - 1, for ``1 <= bound <= 2**128``.

    Numbers in the last, incomplete run of `bound` are drawn again, so no value is favoured.
    """
    complete = TOTAL - TOTAL % bound
    while (number := uniform_128(bits)) >= complete:
        pass
    return number % bound


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
    cell = _cumulative(table).draw(whole("size", size, least=0), bits)
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
