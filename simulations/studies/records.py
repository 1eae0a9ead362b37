"""Records of a cohort in simulation: whose they are, and which of them a check counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Scores = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Records:
    """Cells of a cohort's records, one client's after the other's."""

    cells: Integers  # Shape [records]
    sizes: Integers  # Shape [clients]: how many each client has
    # Which half each record falls into wherever records are split, shape [records]: a salted hash
    # puts a record that stays into the same half again. None for new records.
    first: NDArray[np.bool_] | None = None

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

    def sums(self, score: Scores) -> NDArray[np.float64]:
        """Add up a score of each cell over each client's records, shape [clients]."""
        summed = np.bincount(self.client, score[self.cells], self.clients)
        return np.asarray(summed, dtype=np.float64)

    def by_client(self, rng: np.random.Generator) -> tuple[Records, Records]:
        """Split the clients in two halves at random."""
        first = np.zeros(self.clients, dtype=bool)
        first[rng.permutation(self.clients)[: self.clients // 2]] = True
        return tuple(  # type: ignore[return-value]
            Records(self.cells[half[self.client]], self.sizes[half]) for half in (first, ~first)
        )

    def by_record(self, rng: np.random.Generator) -> tuple[Records, Records]:
        """Split each client's records in two parts at random, as a salted hash does."""
        first = rng.random(len(self.cells)) < 0.5 if self.first is None else self.first
        return self._kept(first), self._kept(~first)

    def at_most(self, most: int, rng: np.random.Generator) -> Records:
        """Keep a uniform sample of so many records of each client who has more."""
        if not len(self.sizes) or self.sizes.max() <= most:
            return self
        order = np.lexsort((rng.random(len(self.cells)), self.client))
        start = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        kept = np.zeros(len(self.cells), dtype=bool)
        kept[order[np.arange(len(order)) - start < most]] = True
        return self._kept(kept)

    def _kept(self, which: NDArray[np.bool_]) -> Records:
        sizes = np.bincount(self.client[which], minlength=self.clients)
        return Records(self.cells[which], sizes)
