"""A ledger's sums made anew from the checks' own rows; the ledger itself only ever changes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, func, select

from flwr_kld.accounting import sums
from flwr_kld.accounting.parts import unpack
from flwr_kld.accounting.schema import checks, spends
from flwr_kld.accounting.schema import sums as table


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
