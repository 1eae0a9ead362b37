"""Whose turn it is, from what the ledger wrote when it reserved: nothing else has to be kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flwr_kld.accounting import books
from flwr_kld.accounting.database import Database
from flwr_kld.accounting.parts import Clients, RecordBuckets
from flwr_kld.accounting.window import last_asked
from flwr_kld.kernel.arguments import whole

NEVER = 0
"""Number of no check."""


class Rotation:
    """When the parts of a population were last asked; it survives restarts as the ledger does."""

    def __init__(self, database: Database, population: str) -> None:
        self._database, self._population = database, population

    def last_asked(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of the last check that asked each client, or `NEVER`."""
        with self._database.reading() as connection:
            known = books.numbers_of(connection, self._population, names)
            numbers = np.array(sorted(known.values()), dtype=np.int64)
            last = last_asked(connection, self._population, Clients.family, numbers)
        of_number = dict(zip(numbers.tolist(), last.tolist(), strict=True))
        return np.array([of_number[known[name]] if name in known else NEVER for name in names])

    def next_buckets(self, key: str, modulus: int, size: int = 1) -> tuple[int, ...]:
        """Return the buckets of one hash that were asked longest ago, or never, in that order."""
        size = whole("size", size, least=1, most=modulus, unit="buckets")
        family = RecordBuckets(key, modulus, [0]).family
        with self._database.reading() as connection:
            last = last_asked(connection, self._population, family, np.arange(modulus))
        return tuple(int(i) for i in np.argsort(last, kind="stable")[:size])
