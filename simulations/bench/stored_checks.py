"""Years of checks written into a ledger at once, and its sums made anew from the checks' own rows.

The ledger itself writes one check at a time, and only ever changes its sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from flwr_kld.accounting import Clients, Cost, sums
from flwr_kld.accounting.books import keep_cost, members
from flwr_kld.accounting.parts import pack, unpack
from flwr_kld.accounting.schema import checks, spends
from flwr_kld.accounting.schema import sums as table

_BATCH = 10_000


def write_checks(
    connection: Connection,
    cost: Cost,
    fleet: int,
    settled: Iterable[tuple[str, int, str, NDArray[np.int64]]],
) -> None:
    """Write settled checks, each of a key, a time, a report and some of a fleet's clients."""
    members(connection, "default", Clients(f"client {i}" for i in range(fleet)))
    numbered, kept = enumerate(settled, 1), keep_cost(connection, cost)
    while batch := list(islice(numbered, _BATCH)):
        connection.execute(
            checks.insert(),
            [
                {"number": number, "population": "default", "kind": "check", "key": key,
                 "started": at, "ended": at, "state": "settled", "report": report}
                for number, (key, at, report, _) in batch
            ],
        )  # fmt: skip
        connection.execute(
            spends.insert(),
            [
                {"check": number, "asked": kept, "family": "clients", "members": pack(asked)}
                for number, (*_, asked) in batch
            ],
        )
    rebuild(connection)


def rebuild(connection: Connection) -> None:
    """Make all sums anew."""
    connection.execute(table.delete())
    for level in range(1, sums.LEVELS + 1):
        rows = list(_level(connection, level))
        if rows:
            connection.execute(table.insert(), rows)


def _level(connection: Connection, level: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a level, from those of the level below."""
    below: Iterable[tuple[str, str, int, sums.Tally]]
    if level == 1:
        cost = func.coalesce(spends.c.delivered, spends.c.asked).label("cost")
        query = select(
            checks.c.population, checks.c.number, spends.c.family, cost, spends.c.members
        )
        below = (
            (row.population, row.family, row.number, sums.tally(row.cost, unpack(row.members)))
            for row in connection.execute(query.join_from(spends, checks).order_by(checks.c.number))
        )
    else:
        query = select(table).where(table.c.level == level - 1).order_by(table.c.block)
        below = (
            (row.population, row.family, row.block, sums.unpack_tally(row.packed))
            for row in connection.execute(query)
        )
    for block, several in groupby(below, lambda part: part[2] // sums.WIDTH):
        counted: dict[tuple[str, str], list[sums.Tally]] = defaultdict(list)
        for population, family, _, part in several:
            counted[population, family].append(part)
        for (population, family), parts in counted.items():
            yield {
                "population": population,
                "level": level,
                "block": block,
                "family": family,
                "packed": sums.pack_tally(sums.added(parts)),
            }
