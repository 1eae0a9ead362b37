"""What monitors remember between checks: a detector's sum, a predictor's counts, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from flwr_kld.accounting.books import read_json, to_json
from flwr_kld.accounting.errors import LedgerError
from flwr_kld.accounting.schema import states


@dataclass(frozen=True)
class Remembered:
    """A named value."""

    name: str  # Of the monitor, say ``"default/alarm"``
    value: Any  # What JSON can hold
    # How often it was written before; 0 for one that is new. Whoever writes must have read the
    # version that is there.
    version: int = 0


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
