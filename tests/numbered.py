"""A domain of exactly so many symbols, for tests of numbers: nothing is 'other' or 'missing'."""

from dataclasses import dataclass

import numpy as np

from flwr_kld.table.base import Domain


@dataclass(frozen=True, eq=False)
class Numbered(Domain):
    """Symbols 0 .. count-1, which records are already."""

    count: int
    kind = "numbered"

    @property
    def size(self):
        return self.count

    def encode(self, records):
        return np.asarray(records, dtype=np.int64)

    def name_of(self, symbol):
        return str(self._index(symbol))
