"""Sums what a window has spent, and decides whether a check fits its budget."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, func, select

from flwr_kld.common.errors import BudgetExhausted
from flwr_kld.ledger.budget import UNBOUNDED, Budget, Ranked, Spent, shown
from flwr_kld.ledger.composition import Spend, worst
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.entry import Kind, utc
from flwr_kld.ledger.rows import read_costs, unpack
from flwr_kld.ledger.schema import checks

_COUNTS = func.coalesce(checks.c.delivered, checks.c.asked)
"""Cost of a release that counts."""
_MOST_REPEATED = 366
"""Further checks that are counted at most: a year of nights, and one."""
_PAGE = 64
"""Releases that are read at once, where not all are wanted."""


class Window:
    """The releases of a population that count now, oldest first; of some clients, or of all."""

    def __init__(
        self,
        connection: Connection,
        budget: Budget,
        now: int,
        asked: NDArray[np.int64] | None = None,
        delivered: Mapping[int, Cost] | None = None,
    ) -> None:
        self._asked = asked
        self._seconds = budget.seconds
        self._rows = _counting(connection, budget, now, checks.c.members)
        self._costs = read_costs(connection, {row.cost for row in self._rows})
        self._delivered = delivered or {}
        for cost in self._costs.values():
            cost.require(budget)

    def __len__(self) -> int:
        return len(self._rows)

    def spends(self, first: int = 0, who: Ranked | None = None) -> list[Spend]:
        """Return all that counts from one release on, of the clients that are asked anew."""
        counts: dict[Cost, NDArray[np.int64]] = {}
        for row in self._rows[first:]:
            if who is not None and Kind(row.kind).ranked != who:
                continue
            members = unpack(row.members)
            cost = self._delivered.get(row.number, self._costs[row.cost])
            counted = counts.get(cost, np.zeros(0, dtype=np.int64))
            counted = np.pad(counted, (0, max(int(members[-1]) + 1 - len(counted), 0)))
            counted[members] += 1
            counts[cost] = counted
        found = []
        for cost, counted in counts.items():
            members = np.flatnonzero(counted)
            if self._asked is not None:
                members = np.intersect1d(members, self._asked, assume_unique=True)
            if members.size:
                found.append(Spend(cost, members, counted[members]))
        return found

    def leaves_at(self, place: int) -> datetime:
        """Return when (UTC) a release leaves the window."""
        return utc(self._rows[place].started + self._seconds + 1)


def _counting(
    connection: Connection, budget: Budget, now: int, column: Column[Any]
) -> Sequence[Any]:
    """Return the releases of a population that count now, oldest first, with one more column."""
    return connection.execute(
        select(checks.c.number, checks.c.started, checks.c.kind, _COUNTS.label("cost"), column)
        .where(
            checks.c.population == budget.population,
            checks.c.asked.is_not(None),
            checks.c.started >= now - budget.seconds,
        )
        .order_by(checks.c.started, checks.c.number)
    ).all()


def refuse_uncharged(connection: Connection, budget: Budget, now: int) -> None:
    """Refuse a budget that something in its window cannot be charged to."""
    rows = _counting(connection, budget, now, checks.c.key)
    known = read_costs(connection, {row.cost for row in rows})
    for row in reversed(rows):
        try:
            known[row.cost].require(budget)
        except ValueError as error:
            until = utc(row.started + budget.seconds + 1)
            raise ValueError(
                f"this budget cannot be put in force before {until:%Y-%m-%d %H:%M:%S} UTC: until "
                f"then the {row.kind} {row.key!r} counts, which cannot be charged to it: {error}"
            ) from None


def last_asked(
    connection: Connection, population: str, members: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of the last check that asked each client, or 0; `members` are sorted."""
    # Newest first, and no more than it takes to find each client.
    query = (
        select(checks.c.number, checks.c.members)
        .where(checks.c.population == population, checks.c.asked.is_not(None))
        .order_by(checks.c.number.desc())
    )
    last = np.zeros(len(members), dtype=np.int64)
    for number, packed in connection.execute(query.execution_options(yield_per=_PAGE)):
        waiting = last == 0
        if not waiting.any():
            break
        last[waiting & np.isin(members, unpack(packed))] = number
    return last


def spent_by(
    connection: Connection, budget: Budget, now: int, delivered: Mapping[int, Cost] | None = None
) -> Spent:
    """Return what the most-charged person has spent in the window that ends now.

    Checks that are `delivered`, by number, count by these costs.
    """
    window = Window(connection, budget, now, delivered=delivered)
    needed, each = worst(window.spends(), budget), get_args(Ranked)
    by_kind = {who: window.spends(who=who) for who in each}
    mixed = all(by_kind.values())
    alone = {
        who: worst(own, budget).epsilon if mixed or not own else needed.epsilon
        for who, own in by_kind.items()
    }
    return Spent(
        epsilon=_in_nats(needed.epsilon),
        delta=float(needed.delta),
        left=float(budget.left("checks", needed.epsilon)),
        composition=needed.composition,
        frees_at=window.leaves_at(0) if len(window) else None,
        budget=budget,
        kinds={
            who: (_in_nats(alone[who]), float(budget.left(who, needed.epsilon))) for who in each
        },
    )


def _in_nats(epsilon: Fraction) -> float:
    return math.inf if epsilon >= UNBOUNDED else float(epsilon)


def room_for(
    connection: Connection,
    budget: Budget,
    now: int,
    check: int,
    delivered: Mapping[int, Cost] | None = None,
) -> int:
    """Return how often a check could be repeated now, of the same clients; 366 for more."""
    query = select(checks.c.kind, checks.c.asked, checks.c.members).where(checks.c.number == check)
    row = connection.execute(query).one()
    cost, members = read_costs(connection, {row.asked})[row.asked], unpack(row.members)
    cost.require(budget)
    past = Window(connection, budget, now, members, delivered).spends()

    def needed(times: int) -> Fraction:
        again = Spend(cost, members, times)
        return worst([*past, again], budget, touched=members).epsilon

    most = budget.limit(Kind(row.kind).ranked)
    return bisect_right(range(1, _MOST_REPEATED + 1), most, key=needed)


def require_budget(
    connection: Connection, budget: Budget, now: int, new: Spend, who: Ranked
) -> None:
    """Refuse what would charge anybody whom it asks more than the budget has for such."""
    window, most = Window(connection, budget, now, new.members), budget.limit(who)
    past = window.spends()
    needed = worst([*past, new], budget, touched=new.members, at_least=most).epsilon
    if needed <= most:
        return
    left = budget.left(who, worst(past, budget, touched=new.members).epsilon)
    frees_at = _fits_from(window, new, budget, most)
    raise BudgetExhausted(
        f"the budget of {budget.population!r} ({budget}) has no room: of those whom this check "
        f"asks, the most-charged has epsilon {shown(left)} left and would come to "
        + ("more than delta allows" if needed >= UNBOUNDED else shown(needed))
        + (
            "; the check by itself is more than the budget: it never fits"
            if frees_at is None
            else f"; it fits from {frees_at:%Y-%m-%d %H:%M:%S} UTC on"
        ),
        left=float(left),
        frees_at=frees_at,
    )


def _fits_from(window: Window, new: Spend, budget: Budget, most: Fraction) -> datetime | None:
    """Return when so much has left that a check fits which needs too much now; None if never."""

    def fits_without(first: int) -> bool:
        """Whether it fits once the releases before this one have left."""
        needed = worst([*window.spends(first), new], budget, touched=new.members)
        return needed.epsilon <= most

    if not fits_without(len(window)):
        return None
    left = bisect_left(range(len(window)), True, key=fits_without)
    return window.leaves_at(left - 1)
