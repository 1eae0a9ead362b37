"""The paper's random map h_t: now and then, a label is replaced by that of a uniform cell."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import whole
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.sampler import uniform_below


class Resampling:
    """What is public of h_t.

    Parameters
    ----------
    cells : NDArray[np.int64]
        ``c_y >= 1``, how many cells a label has, shape [M].
    horizon : int
        T >= 2: with probability 1/T a label is replaced.

    Raises
    ------
    ValueError
        If the horizon is below 2.
    """

    def __init__(self, cells: NDArray[np.int64], horizon: int) -> None:
        self.cells = cells
        self.horizon = whole("horizon", horizon, least=2)
        self.resampled = -(-(1 << 64) // self.horizon)
        """``2**64`` times the probability of a replacement, rounded up: ⌈2**64 / T⌉."""

    @property
    def labels(self) -> int:
        """M."""
        return len(self.cells)

    @property
    def total(self) -> int:
        """N', the number of cells."""
        return int(self._ends[-1])

    def apply(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Map labels [n], of which about n/T are replaced by the label of a uniform cell."""
        mapped = np.array(labels)
        for i in np.flatnonzero(bits.words(len(mapped)) < np.uint64(self.resampled)):
            cell = uniform_below(self.total, bits)
            mapped[i] = np.searchsorted(self._ends, cell, side="right")
        return mapped

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.cells)
