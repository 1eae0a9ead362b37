"""Sums over consecutive checks: what a window holds is known without reading each of its checks.

Block b of level l sums up the checks numbered from b * 32**l to (b + 1) * 32**l - 1. Level 0 are
the checks' own rows. A window begins at any check and ends with the last one, so that at most 31
blocks of a level, and the blocks of the top level, make it up. A release changes one block of each
level, and nothing has to be changed when it leaves the window.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, bindparam, func, select

from flwr_kld.accounting.schema import checks, spends, sums
from flwr_kld.errors import damaged

WIDTH = 32
"""Blocks of one level in a block of the next."""
LEVELS = 4
"""The top level's blocks are of a million checks."""
_MEMBER = 32
"""Bits that hold the number of a part."""
_THIS = [sums.c[name] == bindparam(f"this_{name}") for name in sums.primary_key.columns.keys()]  # noqa: SIM118

Tally = NDArray[np.int64]
"""Ids of costs, numbers of parts, and how many releases of that cost touched that part: each pair
once, sorted, shape [3, pairs]."""


def tally(cost: int, members: NDArray[np.int64], times: int = 1) -> Tally:
    """Count one release, or take one back (`times` = -1)."""
    return np.stack([np.full_like(members, cost), members, np.full_like(members, times)])


def added(tallies: Sequence[Tally]) -> Tally:
    """Add tallies up."""
    costs, members, times = np.concatenate(tallies, axis=1)
    pairs, place = np.unique(costs << _MEMBER | members, return_inverse=True)
    counts = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(counts, place, times)
    if (counts < 0).any():
        raise damaged("a sum of spends")
    total = np.stack([pairs >> _MEMBER, pairs & ((1 << _MEMBER) - 1), counts])
    return total[:, counts > 0]


def pack_tally(counted: Tally) -> bytes:
    """Write a tally compactly; zlib's checksum tells whether it is read as it was written."""
    rows = counted.copy()
    rows[:2] = np.diff(rows[:2], prepend=0, axis=1)
    return zlib.compress(rows.astype("<u4").tobytes(), level=1)


def unpack_tally(packed: bytes) -> Tally:
    """Read what `pack_tally` wrote."""
    try:
        rows = np.frombuffer(zlib.decompress(packed), dtype="<u4").reshape(3, -1)
    except (zlib.error, ValueError):
        raise damaged("a sum of spends") from None
    counted = np.empty(rows.shape, dtype=np.int64)
    counted[:2] = np.cumsum(rows[:2], dtype=np.uint32, axis=1)
    counted[2] = rows[2]
    return counted


# ------------------------------------------------------------------------------------- reading


def blocks(
    connection: Connection, population: str, level: int, first: int, end: int | None = None
) -> Sequence[Row[Any]]:
    """Return the blocks of a level from `first` up to before `end`: block, family, packed tally."""
    query: Select[Any] = (
        select(sums.c.block, sums.c.family, sums.c.packed)
        .where(sums.c.population == population, sums.c.level == level, sums.c.block >= first)
        .order_by(sums.c.block, sums.c.family)
    )
    if end is not None:
        query = query.where(sums.c.block < end)
    return connection.execute(query).all()


def releases(
    connection: Connection, population: str, first: int, end: int | None
) -> Sequence[Row[Any]]:
    """Return what was released from check `first` up to before `end`, oldest first."""
    # Found by number alone: SQLite would take an index of the population, and read all its checks.
    query: Select[Any] = (
        select(
            checks.c.population,
            checks.c.number,
            spends.c.family,
            func.coalesce(spends.c.delivered, spends.c.asked).label("cost"),
            spends.c.members,
        )
        .join_from(spends, checks)
        .where(checks.c.number >= first)
        .order_by(checks.c.number, spends.c.id)
    )
    if end is not None:
        query = query.where(checks.c.number < end)
    return [row for row in connection.execute(query) if row.population == population]


# ------------------------------------------------------------------------------------- writing


def change(
    connection: Connection, population: str, check: int, changes: Iterable[tuple[str, Tally]]
) -> None:
    """Add what a check releases, or takes back, to the blocks that it is in."""
    of_family: dict[str, list[Tally]] = defaultdict(list)
    for family, counted in changes:
        of_family[family].append(counted)
    places, rows = [], []
    for family, counted_here in of_family.items():
        for level in range(1, LEVELS + 1):
            place = {
                "population": population,
                "level": level,
                "block": check // WIDTH**level,
                "family": family,
            }
            there = {f"this_{name}": value for name, value in place.items()}
            packed = connection.execute(select(sums.c.packed).where(*_THIS), there).scalar()
            kept = [] if packed is None else [unpack_tally(packed)]
            places.append(there)
            total = added([*kept, *counted_here])
            if total.size:
                rows.append({**place, "packed": pack_tally(total)})
    if places:
        connection.execute(sums.delete().where(*_THIS), places)
    if rows:
        connection.execute(sums.insert(), rows)
