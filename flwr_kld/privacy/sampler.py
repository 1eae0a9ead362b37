"""Exact draws from a `NoiseTable`: one vectorised search, no floating point.

Proof note: ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.table import NoiseTable

_LOW = (1 << 64) - 1


@lru_cache(maxsize=32)
def _cumulative(table: NoiseTable) -> tuple[tuple[int, ...], NDArray[np.uint64]]:
    """Cumulative weights C_0 < C_1 < … as integers, and their high 64-bit words.

    The last bound may be 2**128, whose high word does not fit: it is left out, because every
    128-bit number lies below it.
    """
    exact = tuple(accumulate(table.weights))
    inner = exact if table.tail else exact[:-1]
    return exact, np.array([c >> 64 for c in inner], dtype=np.uint64)


def sample(table: NoiseTable, size: int, bits: BitSource) -> NDArray[np.int64]:
    """Draw `size` independent values of Z.

    A draw is a uniform 128-bit number U; its value is the first cell whose cumulative weight
    exceeds U. The high 64 bits of U decide the cell except where they equal a bound's high word;
    there the low 64 bits are drawn as well and compared exactly.

    Returns
    -------
    NDArray[np.int64]
        Shape [size], in counts.
    """
    exact, high = _cumulative(table)
    words = bits.words(size)
    cell = np.searchsorted(high, words, side="right")
    undecided = np.flatnonzero(high[np.maximum(cell - 1, 0)] == words)
    for i in undecided:  # probability about (2W + 1) / 2**64 a draw
        number = (int(words[i]) << 64) | int(bits.words(1)[0])
        cell[i] = sum(bound <= number for bound in exact)
    draws = cell.astype(np.int64) - table.reach
    for i in np.flatnonzero(cell == len(table.weights)) if table.tail else ():
        draws[i] = _tail_draw(table, bits)
    return draws


def _tail_draw(table: NoiseTable, bits: BitSource) -> int:
    """One draw of Z given ``|Z| > W``: a fair sign and a geometric number of further steps."""
    magnitude = table.reach + 1
    while int(bits.words(1)[0]) < table.tail_ratio:
        magnitude += 1
    return magnitude if int(bits.words(1)[0]) & 1 else -magnitude
