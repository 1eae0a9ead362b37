"""Records of a cohort in simulation: whose they are, and which are counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Records:
    """Cells of a cohort's records, one client's after the other's."""

    cells: Integers  # Shape [records]
    sizes: Integers  # Shape [clients]: how many each client has

    @cached_property
    def client(self) -> Integers:
        """Whose each record is, shape [records]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.sizes)

    def counts(self, cells: int) -> Integers:
        """Count every record in its cell, shape [cells]."""
        return np.bincount(self.cells, minlength=cells)

    def alike(self) -> float:
        """How many records are alike, over all clients."""
        cell = np.stack([self.client, self.cells])
        (client, _), often = np.unique(cell, axis=1, return_counts=True)
        pairs = np.bincount(client, often * (often - 1), self.clients)
        return float((pairs / np.maximum(self.sizes - 1, 1)).sum() + (self.sizes == 1).sum())

    def at_most(self, most: int, rng: np.random.Generator) -> Records:
        """Keep a uniform sample of so many records of each client who has more."""
        if not len(self.sizes) or self.sizes.max() <= most:
            return self
        order = np.lexsort((rng.random(len(self.cells)), self.client))
        start = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        kept = np.zeros(len(self.cells), dtype=bool)
        kept[order[np.arange(len(order)) - start < most]] = True
        sizes = np.bincount(self.client[kept], minlength=self.clients)
        return Records(self.cells[kept], sizes)
