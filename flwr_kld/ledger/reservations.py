"""The rows of a check in the ledger: reserve, charge, deliver, close."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, func, select

from flwr_kld.common.errors import LedgerError
from flwr_kld.kernel.arguments import choice
from flwr_kld.ledger.budget import Budget
from flwr_kld.ledger.composition import Spend
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.entry import AlreadyChecked, Entry, Kind
from flwr_kld.ledger.rows import entry_of, pack, store_cost, unpack
from flwr_kld.ledger.schema import checks, spends
from flwr_kld.ledger.window import Window, require_budget


@dataclass(frozen=True)
class Reservation:
    """A check that may ask now. What it reserved is spent, unless all whom it asks refuse."""

    number: int  # Number of its entry
    population: str  # Whose budget; the idempotency key
    key: str
    spends: tuple[int, ...]  # Ids of its releases' rows, in the order of its charges


def opened(
    connection: Connection,
    population: str,
    kind: Kind,
    key: str,
    now: int,
    asked: Iterable[tuple[Cost, Spend]],
    before: Entry | None = None,
) -> Reservation:
    """Open an entry under a number that none ever had, and charge what it asks for."""
    number = 1 + (connection.execute(select(func.max(checks.c.number))).scalar() or 0)
    row = {
        "number": number,
        "population": population,
        "kind": str(choice("kind", kind, Kind)),
        "key": key,
        "started": now,
        "ended": None,
        "state": "reserved",
        "report": None,
        "failure": None,
        "words": None,
    }
    if before is None:
        connection.execute(checks.insert().values(row))
    else:
        connection.execute(spends.delete().where(spends.c.check == before.number))
        connection.execute(checks.update().where(checks.c.number == before.number).values(row))
    return Reservation(number, population, key, charge(connection, number, asked))


def charge(
    connection: Connection, check: int, asked: Iterable[tuple[Cost, Spend]]
) -> tuple[int, ...]:
    """Write what a check asks for, and return the rows' ids."""
    rows = [
        {
            "check": check,
            "asked": store_cost(connection, cost),
            "members": pack(spend.members),
        }
        for cost, spend in asked
    ]
    insert = spends.insert().returning(spends.c.id)
    return tuple(connection.execute(insert.values(row)).scalar_one() for row in rows)


def renew(
    connection: Connection,
    budget: Budget,
    key: str,
    now: int,
    asked: Sequence[tuple[Cost, Spend]],
) -> None:
    """Charge a session as of now: once for all its nights, to everybody whom they have asked."""
    population = budget.population
    before = entry_of(connection, population, key)
    charges = [cost for cost, _ in asked]
    charged, asked_before = charges[:1], np.zeros(0, dtype=np.int64)
    if before is not None and not before.refused:
        if before.kind is not Kind.SESSION:  # what it spent would be forgotten
            raise AlreadyChecked(before)
        charged = [release.asked for release in before.releases]
        query = select(spends.c.members).where(spends.c.check == before.number)
        asked_before = np.concatenate([*map(unpack, connection.execute(query).scalars())])
    if charges != charged:
        raise ValueError(
            f"a night of session {key!r} has the one charge that its first night had: "
            "another is of another session"
        )
    ((cost, spend),) = asked
    new = replace(spend, members=np.union1d(spend.members, asked_before))
    held = opened(connection, population, Kind.SESSION, key, now, (), before)
    require_budget(Window(connection, budget, now, [new]), [new], budget)
    charge(connection, held.number, [(cost, new)])
    close(connection, held, now, state="settled")


def deliver(connection: Connection, budget: Budget, delivered: Mapping[int, Cost]) -> None:
    """Write what an open check's releases cost in the end, by the ids of their rows."""
    for row_id, cost in delivered.items():
        cost.require(budget)
        kept = store_cost(connection, cost)
        connection.execute(spends.update().where(spends.c.id == row_id).values(delivered=kept))


def release(connection: Connection, reservation: Reservation) -> None:
    """Take back what a check reserved, of whose clients none answered."""
    connection.execute(spends.delete().where(spends.c.check == reservation.number))


def close(connection: Connection, reservation: Reservation, now: int, **columns: str) -> None:
    """Put a reserved check into its last state."""
    done = connection.execute(
        checks.update()
        .where(checks.c.number == reservation.number, checks.c.state == "reserved")
        .values({"ended": now, **columns})
    )
    if done.rowcount != 1:
        raise LedgerError(f"check {reservation.key!r} is not open: it was closed before")
