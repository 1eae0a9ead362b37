"""Exact draws from a `NoiseTable`, whose tails are geometric.

Proof note: ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import whole
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.cumulative import Cumulative
from flwr_kld.privacy.table import NoiseTable


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
