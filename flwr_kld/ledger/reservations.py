"""The rows of a check in the ledger: reserve, charge, deliver, close."""

from __future__ import annotations

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
from flwr_kld.ledger.schema import checks
from flwr_kld.ledger.window import require_budget

_UNCHARGED = {"asked": None, "delivered": None, "members": None}
"""Columns of a check that nobody is charged for."""


@dataclass(frozen=True)
class Reservation:
    """A check that may ask now. What it reserved is spent, unless all whom it asks refuse."""

    number: int  # Number of its entry
    population: str  # Whose budget; the idempotency key
    key: str


def opened(
    connection: Connection,
    population: str,
    kind: Kind,
    key: str,
    now: int,
    before: Entry | None = None,
) -> Reservation:
    """Open an entry under a number that none ever had; nobody is charged for it yet."""
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
        **_UNCHARGED,
    }
    if before is None:
        connection.execute(checks.insert().values(row))
    else:
        connection.execute(checks.update().where(checks.c.number == before.number).values(row))
    return Reservation(number, population, key)


def charge(connection: Connection, check: int, asked: Spend) -> None:
    """Write what a check asks for."""
    cost, members = store_cost(connection, asked.cost), pack(asked.members)
    of_check = checks.update().where(checks.c.number == check)
    connection.execute(of_check.values(asked=cost, members=members))


def renew(connection: Connection, budget: Budget, key: str, now: int, asked: Spend) -> None:
    """Charge a session as of now: once for all its nights, to everybody whom they have asked."""
    before = entry_of(connection, budget.population, key)
    if before is not None and not before.refused:
        if before.kind is not Kind.SESSION or before.release is None:
            raise AlreadyChecked(before)  # what it spent would be forgotten
        if before.release.asked != asked.cost:
            raise ValueError(
                f"a night of session {key!r} has the charge that its first night had: another is "
                "of another session"
            )
        query = select(checks.c.members).where(checks.c.number == before.number)
        asked_before = unpack(connection.execute(query).scalar_one())
        asked = replace(asked, members=np.union1d(asked.members, asked_before))
    held = opened(connection, budget.population, Kind.SESSION, key, now, before)
    require_budget(connection, budget, now, asked, Kind.SESSION.ranked)
    charge(connection, held.number, asked)
    close(connection, held, now, state="settled")


def deliver(connection: Connection, budget: Budget, reservation: Reservation, cost: Cost) -> None:
    """Write what an open check's release cost in the end."""
    cost.require(budget)
    kept = store_cost(connection, cost)
    of_check = checks.update().where(
        checks.c.number == reservation.number, checks.c.asked.is_not(None)
    )
    if connection.execute(of_check.values(delivered=kept)).rowcount != 1:
        raise LedgerError(f"check {reservation.key!r} has no charge of its own")


def release(connection: Connection, reservation: Reservation) -> None:
    """Take back what a check reserved, of whose clients none answered."""
    of_check = checks.update().where(checks.c.number == reservation.number)
    connection.execute(of_check.values(_UNCHARGED))


def close(connection: Connection, reservation: Reservation, now: int, **columns: str) -> None:
    """Put a reserved check into its last state."""
    done = connection.execute(
        checks.update()
        .where(checks.c.number == reservation.number, checks.c.state == "reserved")
        .values({"ended": now, **columns})
    )
    if done.rowcount != 1:
        raise LedgerError(f"check {reservation.key!r} is not open: it was closed before")
