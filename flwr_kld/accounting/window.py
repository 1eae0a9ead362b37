"""What a window of time has spent, and whether a check fits beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from flwr_kld.accounting.books import read_costs
from flwr_kld.accounting.budget import ATTO, NANO, UNBOUNDED, Budget, Spent, shown
from flwr_kld.accounting.composition import Spend, worst
from flwr_kld.accounting.cost import Cost
from flwr_kld.accounting.entry import utc
from flwr_kld.accounting.parts import Clients, Everyone, unpack
from flwr_kld.accounting.schema import checks, spends
from flwr_kld.accounting.sums import LEVELS, WIDTH, Tally, blocks, releases, tally, unpack_tally
from flwr_kld.errors import BudgetExhausted
from flwr_kld.kernel import Unit


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive checks."""

    level: int  # Which; at level 0 the block is the number of one check
    block: int
    spends: tuple[Spend, ...]  # What they have spent, in the budget's terms


class Window:
    """The checks of a population that count now, oldest first."""

    def __init__(
        self, connection: Connection, budget: Budget, now: int, new: Sequence[Spend] = ()
    ) -> None:
        self._connection, self._budget = connection, budget
        self._costs: dict[int, Cost] = {}
        self._touched = touched_by(new)
        oldest = connection.execute(
            select(checks.c.number, checks.c.started)
            .where(
                checks.c.population == budget.population,
                checks.c.started >= now - budget.seconds,
            )
            .order_by(checks.c.started, checks.c.number)
            .limit(1)
        ).one_or_none()
        self.frees_at = None if oldest is None else self._leaves(oldest.started)
        """UTC; when the oldest check leaves the window; None if there is none."""
        self.pieces = [] if oldest is None else self._since(oldest.number)

    @property
    def spends(self) -> list[Spend]:
        """All that counts."""
        return [spend for piece in self.pieces for spend in piece.spends]

    def parts(self, piece: Piece) -> list[Piece]:
        """Return the pieces of the level below that make up a sum."""
        first = piece.block * WIDTH
        return self._read(piece.level - 1, first, first + WIDTH)

    def leaves_at(self, check: int) -> datetime:
        """Return when (UTC) a check leaves the window."""
        query = select(checks.c.started).where(checks.c.number == check)
        return self._leaves(self._connection.execute(query).scalar_one())

    def _leaves(self, started: int) -> datetime:
        return utc(started + self._budget.seconds + 1)

    def _since(self, first: int) -> list[Piece]:
        """Cover all checks from one on: with the largest blocks that hold no earlier one."""
        found: list[Piece] = []
        for level in range(LEVELS):
            end = -(-first // WIDTH)  # of the level above: what is left of it is read there
            found += self._read(level, first, end * WIDTH)
            first = end
        return found + self._read(LEVELS, first, None)

    def _read(self, level: int, first: int, end: int | None) -> list[Piece]:
        population = self._budget.population
        rows: Iterable[tuple[int, str, Tally]]
        if level == 0:
            rows = (
                (row.number, row.family, tally(row.cost, unpack(row.members)))
                for row in releases(self._connection, population, first, end)
            )
        else:
            rows = (
                (row.block, row.family, unpack_tally(row.packed))
                for row in blocks(self._connection, population, level, first, end)
            )
        pieces = (
            Piece(level, block, tuple(s for _, family, t in parts for s in self._spends(family, t)))
            for block, parts in groupby(rows, lambda row: row[0])
        )
        return [piece for piece in pieces if piece.spends]

    def _spends(self, family: str, counted: Tally) -> Iterator[Spend]:
        """Yield a tally in the budget's terms, one spend for each cost."""
        firsts = np.flatnonzero(np.diff(counted[0])) + 1  # a tally is sorted by cost
        for costs, members, times in np.split(counted, firsts, axis=1):
            cost = int(costs[0])
            if cost not in self._costs:
                self._costs.update(read_costs(self._connection, [cost]))
            spend = Spend(in_terms(self._costs[cost], family, self._budget), family, members, times)
            if family in self._touched:
                spend = spend.among(self._touched[family])
            if spend.members.size:
                yield spend


def touched_by(new: Sequence[Spend]) -> dict[str, NDArray[np.int64]]:
    """Return the parts of a family outside of which nobody is touched, where that is known."""
    # Where a check touches parts of several families, those who are in a part of one may be in any
    # part of another: nothing may be left out.
    families = {spend.family for spend in new}
    if len(families) != 1:
        return {}
    return {families.pop(): np.unique(np.concatenate([spend.members for spend in new]))}


def in_terms(cost: Cost, family: str, budget: Budget) -> Cost:
    """Return what a release to some parts costs in a budget's adjacency and unit."""
    if budget.unit is Unit.CLIENT and family not in (Clients.family, Everyone.family):
        raise ValueError(
            f"the budget of {budget.population!r} protects whole clients, and buckets divide "
            "records: charge Clients(…) or Everyone()"
        )
    return cost.toward(budget)


def refuse_uncharged(connection: Connection, budget: Budget, now: int) -> None:
    """Refuse a budget that something in its window cannot be charged to."""
    cost = func.coalesce(spends.c.delivered, spends.c.asked)
    latest = func.max(checks.c.number).label("check")
    kinds = connection.execute(
        select(cost.label("cost"), spends.c.family, latest)
        .join_from(spends, checks)
        .where(
            checks.c.population == budget.population,
            checks.c.started >= now - budget.seconds,
        )
        .group_by(cost, spends.c.family)
        .order_by(latest.desc())
    ).all()
    known = read_costs(connection, {kind.cost for kind in kinds})
    for kind in kinds:
        try:
            in_terms(known[kind.cost], kind.family, budget)
        except ValueError as error:
            row = connection.execute(select(checks).where(checks.c.number == kind.check)).one()
            until = utc(row.started + budget.seconds + 1)
            raise ValueError(
                f"this budget cannot be put in force before {until:%Y-%m-%d %H:%M:%S} UTC: until "
                f"then the {row.kind} {row.key!r} counts, which cannot be charged to it: {error}"
            ) from None


def last_asked(
    connection: Connection, population: str, family: str, members: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of the last check that asked each part, or 0; `members` are sorted."""
    # Reads newest blocks first, and only those that hold a part that was not found yet.
    last = np.zeros(len(members), dtype=np.int64)
    waiting = members
    stack = _of_family(connection, population, family, LEVELS, 0, None)
    while stack and waiting.size:
        level, block, packed = stack.pop()
        there = unpack(packed) if level == 0 else unpack_tally(packed)[1]
        found = np.intersect1d(waiting, there)
        if not found.size:
            continue
        if level == 0:
            last[np.searchsorted(members, found)] = block
            waiting = np.setdiff1d(waiting, found, assume_unique=True)
        else:
            first = block * WIDTH
            stack += _of_family(connection, population, family, level - 1, first, first + WIDTH)
    return last


def _of_family(
    connection: Connection, population: str, family: str, level: int, first: int, end: int | None
) -> list[tuple[int, int, bytes]]:
    if level == 0:
        rows = releases(connection, population, first, end)
        return [(0, row.number, row.members) for row in rows if row.family == family]
    found = blocks(connection, population, level, first, end)
    return [(level, row.block, row.packed) for row in found if row.family == family]


_GUESSES = 4
"""Compositions by which a piece is looked for before halving."""


def spent_by(window: Window, budget: Budget) -> Spent:
    """Return what the most-charged person has spent in a window."""
    needed = worst(window.spends, budget)
    return Spent(
        epsilon=math.inf if needed.epsilon >= UNBOUNDED else needed.epsilon / 10**NANO,
        delta=needed.delta / 10**ATTO,
        left=max(budget.nano_epsilon - needed.epsilon, 0) / 10**NANO,
        composition=needed.composition,
        frees_at=window.frees_at,
        budget=budget,
    )


def require_budget(window: Window, new: Sequence[Spend], budget: Budget) -> None:
    """Refuse what would charge anybody whom it asks more than the budget."""
    most, past = budget.nano_epsilon, window.spends
    needed = worst([*past, *new], budget, touched=new, at_least=most).epsilon
    if needed <= most:
        return
    left = max(most - worst(past, budget, touched=new).epsilon, 0)
    frees_at = _fits_from(window, new, budget, needed)
    raise BudgetExhausted(
        f"the budget of {budget.population!r} ({budget}) has no room: of those whom this check "
        f"asks, the most-charged has epsilon {shown(left, NANO)} left and would come to "
        + ("more than delta allows" if needed >= UNBOUNDED else shown(needed, NANO))
        + (
            "; the check by itself is more than the budget: it never fits"
            if frees_at is None
            else f"; it fits from {frees_at:%Y-%m-%d %H:%M:%S} UTC on"
        ),
        left=left / 10**NANO,
        frees_at=frees_at,
    )


def _fits_from(
    window: Window, new: Sequence[Spend], budget: Budget, needed: int
) -> datetime | None:
    """Return when so much has left that a check fits which needs too much now; None if never."""
    most, alone = budget.nano_epsilon, worst(new, budget, touched=new).epsilon
    if alone > most:
        return None
    pieces, later, fits = window.pieces, list(new), alone

    def after(i: int) -> list[Spend]:
        return [*later, *(spend for piece in pieces[i + 1 :] for spend in piece.spends)]

    def needed_after(i: int) -> int:
        return worst(after(i), budget, touched=new, at_least=alone).epsilon

    while True:  # into ever smaller pieces
        sizes = [WIDTH**piece.level for piece in pieces]
        last, needed, fits = _crossing(needed_after, sizes, needed, fits, most)
        piece = pieces[last]
        if piece.level == 0:
            return window.leaves_at(piece.block)
        later, pieces = after(last), window.parts(piece)


def _crossing(
    value: Callable[[int], int], sizes: Sequence[int], before: int, after: int, most: int
) -> tuple[int, int, int]:
    """Find the first index whose value is at most `most`, and the values before it and at it."""
    # Each value may take a composition, and falls almost evenly over the sizes: guess by that, and
    # halve what is left where a few guesses were not enough.
    ends = np.cumsum([0, *sizes])  # of the step before each
    low, high = -1, len(sizes) - 1
    guesses = 0
    while high - low > 1:
        middle = (low + high) // 2
        if guesses < _GUESSES:
            share = (before - most) / (before - after)
            place = ends[low + 1] + share * (ends[high + 1] - ends[low + 1])
            middle = min(max(int(np.searchsorted(ends, place)) - 1, low + 1), high - 1)
        guesses += 1
        found = value(middle)
        if found > most:
            low, before = middle, found
        else:
            high, after = middle, found
    return high, before, after
