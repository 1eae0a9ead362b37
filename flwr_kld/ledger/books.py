"""What is read from and written to the tables, inside a transaction that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, func, select

from flwr_kld.ledger.budget import DAY, Budget
from flwr_kld.ledger.composition import Spend
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.entry import Entry, Purpose, Release, utc
from flwr_kld.ledger.errors import NoBudget, damaged
from flwr_kld.ledger.parts import Clients, Parts, RecordBuckets, pack, unpack
from flwr_kld.ledger.schema import budgets, checks, clock, costs, participants, spends
from flwr_kld.privacy import Adjacency, Unit
from flwr_kld.privacy.amounts import ATTO, NANO

_NAMES = 5_000
"""Names in one query; databases limit the number of its parameters."""


# ------------------------------------------------------------------------------------- clock


def time_seen(connection: Connection, now: float) -> int:
    """Return the time in seconds; a clock that runs backwards stands still."""
    seen: int = connection.execute(select(clock.c.seen)).scalar_one()
    return max(int(now), seen)


def tick(connection: Connection, now: float) -> int:
    """Return the time, and keep it as the latest that was ever seen."""
    seen = time_seen(connection, now)
    connection.execute(clock.update().values(seen=seen))
    return seen


# ------------------------------------------------------------------------------------ budgets


def budget_of(connection: Connection, population: str) -> Budget:
    """Return the budget in force.

    Raises
    ------
    NoBudget
        If none was set.
    """
    row = _last_budget(connection, population)
    if row is None:
        raise NoBudget(population)
    try:
        return Budget(
            epsilon=row.epsilon / 10**NANO,
            delta=row.delta / 10**ATTO,
            window_days=row.seconds / DAY,
            population=population,
            adjacency=Adjacency(row.adjacency),
            unit=Unit(row.unit),
            composition=row.composition,
        )
    except ValueError:
        raise damaged("a budget") from None


def put_budget(connection: Connection, budget: Budget, now: int) -> None:
    """Put a budget in force, unless it is."""
    columns = {
        "population": budget.population,
        "epsilon": budget.nano_epsilon,
        "delta": budget.atto_delta,
        "seconds": budget.seconds,
        "adjacency": str(budget.adjacency),
        "unit": str(budget.unit),
        "composition": budget.composition,
    }
    row = _last_budget(connection, budget.population)
    if row is None or any(getattr(row, name) != value for name, value in columns.items()):
        connection.execute(budgets.insert().values(since=now, **columns))


def _last_budget(connection: Connection, population: str) -> Row[Any] | None:
    query = select(budgets).where(budgets.c.population == population)
    return connection.execute(query.order_by(budgets.c.number.desc()).limit(1)).one_or_none()


# --------------------------------------------------------------------------------------- people


def numbers_of(connection: Connection, population: str, names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of those clients that were asked before."""
    known: dict[str, int] = {}
    for start in range(0, len(names), _NAMES):
        query = select(participants.c.name, participants.c.number).where(
            participants.c.population == population,
            participants.c.name.in_(names[start : start + _NAMES]),
        )
        known.update((name, number) for name, number in connection.execute(query))
    return known


def members(connection: Connection, population: str, parts: Parts) -> NDArray[np.int64]:
    """Return the sorted numbers of some parts; clients that are new get one."""
    if isinstance(parts, RecordBuckets):
        return np.sort(np.array(parts.residues, dtype=np.int64))
    if not isinstance(parts, Clients):
        return np.zeros(1, dtype=np.int64)
    known = numbers_of(connection, population, parts.names)
    new = [name for name in parts.names if name not in known]
    if new:
        query = select(func.count()).where(participants.c.population == population)
        first = connection.execute(query).scalar_one()
        numbered = {name: first + i for i, name in enumerate(new)}
        rows = [
            {"population": population, "name": name, "number": number}
            for name, number in numbered.items()
        ]
        connection.execute(participants.insert(), rows)
        known.update(numbered)
    return np.sort(np.array(list(known.values()), dtype=np.int64))


# --------------------------------------------------------------------------------------- spends


def keep_cost(connection: Connection, cost: Cost) -> int:
    """Return the id of a cost's row; there is one for each kind."""
    found = connection.execute(select(costs.c.id).where(costs.c.digest == cost.digest)).scalar()
    if found is None:
        (found,) = connection.execute(
            costs.insert().values(cost.to_row()).returning(costs.c.id)
        ).one()
    return int(found)


def add_spends(
    connection: Connection, check: int, asked: Iterable[tuple[Cost, Spend]]
) -> tuple[int, ...]:
    """Write what a check asks for, and return the rows' ids."""
    ids = []
    for cost, spend in asked:
        row = {
            "check": check,
            "asked": keep_cost(connection, cost),
            "family": spend.family,
            "members": pack(spend.members),
        }
        ids.append(
            connection.execute(spends.insert().values(row).returning(spends.c.id)).scalar_one()
        )
    return tuple(ids)


def window(connection: Connection, budget: Budget, now: int) -> list[Spend]:
    """Return what counts against a budget now, oldest first.

    Raises
    ------
    LedgerUnavailable
        If a row is damaged.
    ValueError
        If one hides less than the budget promises.
    """
    query = (
        select(
            checks.c.started,
            func.coalesce(spends.c.delivered, spends.c.asked).label("cost"),
            spends.c.family,
            spends.c.members,
        )
        .join_from(spends, checks)
        .where(
            checks.c.population == budget.population,
            checks.c.state != "abandoned",
            checks.c.started >= now - budget.seconds,
        )
        .order_by(spends.c.id)
    )
    rows = connection.execute(query).all()
    known = {
        number: cost.toward(budget)
        for number, cost in read_costs(connection, {row.cost for row in rows}).items()
    }
    return [Spend(row.started, known[row.cost], row.family, unpack(row.members)) for row in rows]


def last_asked(
    connection: Connection, population: str, family: str, parts: int
) -> NDArray[np.int64]:
    """Return the number of the last check that asked each part, or 0, shape [at least `parts`]."""
    query = (
        select(spends.c.check, spends.c.members)
        .join_from(spends, checks)
        .where(
            checks.c.population == population,
            checks.c.state != "abandoned",
            spends.c.family == family,
        )
        .order_by(spends.c.check)
    )
    last = np.zeros(parts, dtype=np.int64)
    for check, packed in connection.execute(query):
        asked = unpack(packed)
        last = np.pad(last, (0, max(0, int(asked[-1]) + 1 - len(last))))
        last[asked] = check
    return last


def read_costs(connection: Connection, ids: Iterable[int]) -> dict[int, Cost]:
    """Return costs by their rows' ids."""
    rows = connection.execute(select(costs).where(costs.c.id.in_(sorted(ids))))
    return {row.id: Cost.from_row(row) for row in rows}


# -------------------------------------------------------------------------------------- entries


def add_check(connection: Connection, population: str, purpose: Purpose, key: str, now: int) -> int:
    """Open an entry, and return its number."""
    row = {
        "population": population,
        "purpose": purpose,
        "key": key,
        "started": now,
        "state": "reserved",
    }
    return int(
        connection.execute(checks.insert().values(row).returning(checks.c.number)).scalar_one()
    )


def of_key(population: str, purpose: Purpose, key: str) -> Select[Any]:
    """Query of one entry."""
    return select(checks).where(
        checks.c.population == population, checks.c.purpose == purpose, checks.c.key == key
    )


def entries(connection: Connection, query: Select[Any]) -> list[Entry]:
    """Return the entries that a query of `checks` finds.

    Raises
    ------
    LedgerUnavailable
        If a row is damaged.
    """
    rows = connection.execute(query).all()
    number = select(query.subquery().c.number)
    released = connection.execute(
        select(spends).where(spends.c.check.in_(number)).order_by(spends.c.id)
    ).all()
    ids = {row.asked for row in released} | {row.delivered for row in released} - {None}
    known = read_costs(connection, ids)
    of_check: dict[int, list[Release]] = {row.number: [] for row in rows}
    for row in released:
        of_check[row.check].append(
            Release(
                known[row.asked],
                None if row.delivered is None else known[row.delivered],
                row.family,
                len(unpack(row.members)),
            )
        )
    return [_entry(row, tuple(of_check[row.number])) for row in rows]


def read_json(text: str, what: str) -> Any:
    """Read a JSON column.

    Raises
    ------
    LedgerUnavailable
        If it is damaged.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise damaged(what) from None


def _entry(row: Row[Any], releases: tuple[Release, ...]) -> Entry:
    return Entry(
        number=row.number,
        population=row.population,
        purpose=row.purpose,
        key=row.key,
        started=utc(row.started),
        ended=None if row.ended is None else utc(row.ended),
        state=row.state,
        report=None if row.report is None else read_json(row.report, "a report"),
        note=row.note,
        releases=releases,
    )
