"""What a ledger remembers between checks: states as JSON, and whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from flwr_kld.accounting import books
from flwr_kld.accounting.books import read_json, to_json
from flwr_kld.accounting.database import Database
from flwr_kld.accounting.entry import Remembered
from flwr_kld.accounting.errors import LedgerError
from flwr_kld.accounting.parts import Clients, RecordBuckets
from flwr_kld.accounting.schema import states
from flwr_kld.accounting.window import last_asked
from flwr_kld.kernel.arguments import whole


def read_state(connection: Connection, name: str) -> Remembered | None:
    """Return a state, if there is one."""
    row = connection.execute(select(states).where(states.c.name == name)).one_or_none()
    return None if row is None else Remembered(name, read_json(row.value, "a state"), row.version)


def write_state(connection: Connection, state: Remembered, now: int) -> Remembered:
    """Write the next version of a state."""
    found = read_state(connection, state.name)
    version = 0 if found is None else found.version
    if version != state.version:
        raise LedgerError(
            f"state {state.name!r} was read at version {state.version} and is at {version}: "
            "somebody else has written it; read it again"
        )
    values = {
        "version": version + 1,
        "value": to_json(state.value, f"state {state.name!r}"),
        "updated": now,
    }
    if found is None:
        connection.execute(states.insert().values(name=state.name, **values))
    else:
        connection.execute(states.update().where(states.c.name == state.name).values(values))
    return Remembered(state.name, state.value, version + 1)


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
