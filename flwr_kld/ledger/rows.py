"""Reads and writes rows of the ledger's tables, inside a transaction of the caller."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, func, null, select, tuple_

from flwr_kld.common.errors import NoBudget, damaged
from flwr_kld.kernel.arguments import choice, moment
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.ledger.budget import DAY, Budget, written
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.entry import Entry, Failure, Kind, ReleaseCost, utc
from flwr_kld.ledger.schema import (
    budgets,
    checks,
    clock,
    costs,
    participants,
)

_NAMES = 5_000
"""Names or numbers in one query; databases limit the number of its parameters."""
_PAGE = 64
"""Entries that are read at once."""
_WIDTH = 17
"""Bytes that hold any weight of a noise table, 2**128 included."""


# ------------------------------------------------------------------------------------- clock


def time_seen(connection: Connection, now: float) -> int:
    """Return the time in seconds; a clock that runs backwards stands still."""
    seen = connection.execute(select(clock.c.seen)).scalar()
    if seen is None:
        raise damaged("the clock")
    return max(int(moment("now", now)), int(seen))


def advance_clock(connection: Connection, now: float) -> int:
    """Return the time, and keep it as the latest that was ever seen."""
    seen = time_seen(connection, now)
    connection.execute(clock.update().values(seen=seen))
    return seen


# ------------------------------------------------------------------------------------ budgets


def budget_of(connection: Connection, population: str) -> Budget:
    """Return the budget in force."""
    row = _last_budget(connection, population)
    if row is None:
        raise NoBudget(population)
    try:
        return Budget(
            epsilon=float(row.epsilon),
            delta=float(row.delta),
            window_days=row.seconds / DAY,
            population=population,
            protects=row.protects,
            composition=row.composition,
            first=row.first,
            kept=float(row.kept),
        )
    except ValueError:
        raise damaged("a budget") from None


def put_budget(connection: Connection, budget: Budget, now: int) -> bool:
    """Put a budget in force; return whether it is new."""
    columns = {
        "population": budget.population,
        "epsilon": str(budget.epsilon),
        "delta": str(budget.delta),
        "seconds": budget.seconds,
        "protects": budget.protects,
        "composition": budget.composition,
        "first": budget.first,
        "kept": str(budget.kept),
    }
    row = _last_budget(connection, budget.population)
    if row is not None and all(getattr(row, name) == value for name, value in columns.items()):
        return False
    connection.execute(budgets.insert().values(since=now, **columns))
    return True


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


def members(connection: Connection, population: str, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the sorted numbers of some clients; those that are new get one."""
    known = numbers_of(connection, population, names)
    new = [name for name in names if name not in known]
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


def pack(members: NDArray[np.int64]) -> bytes:
    """Write sorted numbers compactly."""
    return zlib.compress(np.diff(members, prepend=0).astype("<u4").tobytes())


def unpack(packed: bytes) -> NDArray[np.int64]:
    """Read what `pack` wrote."""
    return np.cumsum(_steps(packed), dtype=np.int64)


def _steps(packed: bytes) -> NDArray[np.uint32]:
    """Return how far each number is from the one before."""
    try:
        steps = np.frombuffer(zlib.decompress(packed), dtype="<u4")
    except (zlib.error, ValueError):
        steps = np.empty(0, dtype=np.uint32)
    if not len(steps):
        raise damaged("a list of clients")
    return steps


# --------------------------------------------------------------------------------------- spends


def store_cost(connection: Connection, cost: Cost) -> int:
    """Return the id of a cost's row; there is one for each kind."""
    found = connection.execute(select(costs.c.id).where(costs.c.digest == cost.digest)).scalar()
    if found is None:
        row = costs.insert().values(cost_row(cost)).returning(costs.c.id)
        (found,) = connection.execute(row).one()
    return int(found)


def read_costs(connection: Connection, ids: Iterable[int]) -> dict[int, Cost]:
    """Return costs by their rows' ids."""
    wanted = set(ids)
    rows = connection.execute(select(costs).where(costs.c.id.in_(sorted(wanted))))
    found = {row.id: cost_of(row) for row in rows}
    if found.keys() != wanted:
        raise damaged("a cost")
    return found


def cost_row(cost: Cost) -> dict[str, Any]:
    """Return the columns of a cost: amounts as text; of its table, the weights from 0 upwards."""
    table, numbers = cost.table, list[int]()
    if table is not None:
        numbers = [table.tail, table.tail_ratio, *table.weights[table.reach :]]
    return {
        "digest": cost.digest,
        "mechanism": cost.mechanism,
        "epsilon": str(cost.epsilon),
        "delta": str(cost.delta),
        "protects": cost.protects,
        "shifts": json.dumps(cost.shifts),
        "noise": b"".join(number.to_bytes(_WIDTH, "little") for number in numbers),
        "noise_multiplier": str(cost.noise_multiplier or ""),
    }


def cost_of(row: Any) -> Cost:
    """Read what `cost_row` gave."""
    try:
        amounts = row.mechanism, written(row.epsilon), written(row.delta), row.protects
        table = _table(row.noise) if row.noise else None
        noise = written(row.noise_multiplier) if row.noise_multiplier else None
        cost = Cost(*amounts, json.loads(row.shifts), table, noise)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        raise damaged("a cost") from None
    if cost.digest != row.digest:
        raise damaged("a cost")
    return cost


def _table(noise: bytes) -> NoiseTable:
    starts = range(0, len(noise), _WIDTH)
    tail, ratio, *side = (int.from_bytes(noise[i : i + _WIDTH], "little") for i in starts)
    return NoiseTable((*side[:0:-1], *side), tail, ratio)


# -------------------------------------------------------------------------------------- entries


def entry_of(connection: Connection, population: str, key: str) -> Entry | None:
    """Return the entry of a key, if there is one."""
    query = select(checks).where(checks.c.population == population, checks.c.key == key)
    found = entries(connection, query, {})
    return found[0] if found else None


def entries(connection: Connection, query: Select[Any], known: dict[int, Cost]) -> list[Entry]:
    """Return the entries that a query of `checks` finds; costs that are new become `known`."""
    rows = connection.execute(query).all()
    ids = {row.asked for row in rows} | {row.delivered for row in rows}
    if new := ids - {None} - known.keys():
        known |= read_costs(connection, new)
    return [_entry(row, known) for row in rows]


_LIGHT = select(
    *(column for column in checks.c if column is not checks.c.report), null().label("report")
)
"""Entries without their reports, which are most of a ledger's size."""


def query_of(
    population: str, kinds: Iterable[Kind] | None = None, *, reports: bool = True
) -> Select[Any]:
    """Return the query of a population's entries, by default of all kinds."""
    query = (select(checks) if reports else _LIGHT).where(checks.c.population == population)
    if kinds is None:
        return query
    return query.where(checks.c.kind.in_([choice("kinds", kind, Kind) for kind in kinds]))


def newest_first(
    reading: Callable[[], AbstractContextManager[Connection]],
    query: Select[Any],
    before: int | None = None,
) -> Iterator[Entry]:
    """Yield what a query of `checks` finds before a number, newest first, some at a time."""
    query = query.order_by(checks.c.started.desc(), checks.c.number.desc()).limit(_PAGE)
    known: dict[int, Cost] = {}
    while True:
        with reading() as connection:
            older = query if before is None else query.where(checks.c.number < before)
            page = entries(connection, older, known)
        more = len(page) == _PAGE
        while page:  # what is read of a report goes with its entry
            before = page[0].number
            yield page.pop(0)
        if not more:
            return


def oldest_first(
    reading: Callable[[], AbstractContextManager[Connection]], query: Select[Any]
) -> Iterator[Entry]:
    """Yield what a query of `checks` finds, oldest first, some at a time."""
    query = query.order_by(checks.c.started, checks.c.number).limit(_PAGE)  # as an index has them
    newer, known = query, dict[int, Cost]()
    while True:
        with reading() as connection:
            page = entries(connection, newer, known)
        more = len(page) == _PAGE
        while page:
            last = int(page[0].started.timestamp()), page[0].number
            yield page.pop(0)
        if not more:
            return
        newer = query.where(tuple_(checks.c.started, checks.c.number) > last)


def count_before(
    connection: Connection, population: str, number: int, kinds: Iterable[Kind]
) -> int:
    """Count the entries of some kinds before an entry."""
    query = (
        select(func.count())
        .select_from(checks)
        .where(
            checks.c.population == population,
            checks.c.number < number,
            checks.c.kind.in_([choice("kinds", kind, Kind) for kind in kinds]),
        )
    )
    found: int = connection.execute(query).scalar_one()
    return found


def to_json(value: Any, what: str) -> str:
    """Write a JSON column."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(
            f"{what} cannot be kept as JSON, which has no NaN and no infinity: {error}"
        ) from None


def _entry(row: Row[Any], known: Mapping[int, Cost]) -> Entry:
    release = None
    if row.asked is not None:
        release = ReleaseCost(known[row.asked], known.get(row.delivered), len(_steps(row.members)))
    # The tables are strict: a column holds its type, and a state or kind that there is.
    try:
        return Entry(
            number=row.number,
            population=row.population,
            kind=Kind(row.kind),
            key=row.key,
            started=utc(row.started),
            ended=None if row.ended is None else utc(row.ended),
            state=row.state,
            stored_report=row.report,
            failure=None if row.failure is None else Failure(row.failure, row.words or ""),
            release=release,
        )
    except (ValueError, OverflowError):
        raise damaged("a check") from None
