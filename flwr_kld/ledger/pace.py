"""How often a budget lets checks come: checks in a window × epsilon, and what rotation saves."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

from flwr_kld.ledger.budget import UNBOUNDED, Budget, in_days
from flwr_kld.ledger.composition import Spend, worst
from flwr_kld.ledger.cost import Cost

FEW = 40
"""Clients in a check below which it is about these alone: a rotation of clients needs more."""
_MOST_COMPOSED = 10_000
"""Releases to one person beyond which epsilons are added up."""


@dataclass(frozen=True)
class Pace:
    """Checks of a schedule, held against a budget."""

    checks: int  # Most that any window of the budget has
    cost: Cost  # Of a check
    # Checks in a row that touch different people; 1 where each asks everybody for everything
    rotation: int
    budget: Budget  # What they are held against

    def __post_init__(self) -> None:
        self.cost.require(self.budget)

    @property
    def epsilon(self) -> float:
        """Of a check, in nats."""
        return float(self.cost.epsilon)

    @property
    def room(self) -> float:
        """Epsilon that the budget has for checks."""
        return float(self.budget.limit("checks"))

    @property
    def times(self) -> int:
        """Checks that touch the same person in a window."""
        return math.ceil(self.checks / self.rotation)

    @property
    def needed(self) -> float:
        """Epsilon that the budget has to have for all of them."""
        return self._spent(self.times)

    @property
    def fits(self) -> bool:
        """Whether no check of the schedule will be refused for lack of budget."""
        return self.needed <= self.room

    @property
    def affordable(self) -> int:
        """Checks that the budget has room for in a window."""
        times = bisect_right(range(1, self.times + 1), self.room, key=self._spent)
        return min(times * self.rotation, self.checks)

    def _spent(self, times: int) -> float:
        """Return what so many checks of the same person come to."""
        spend = Spend(self.cost, np.zeros(1, int), times)
        filtered = self.budget.composition == "renyi"
        added = self.budget if filtered else replace(self.budget, composition="sum")
        needed = worst([spend], added)
        if needed.epsilon > self.budget.limit("checks") and times <= _MOST_COMPOSED:
            needed = worst([spend], self.budget)
        return float(needed.epsilon)

    def __str__(self) -> str:
        added = math.isclose(self.needed, self.times * self.epsilon, rel_tol=1e-3)
        by = "× ε {:g} =" if added else "at ε {:g} each, which compose to"
        return (
            f"{_checks(self.checks)} in any {in_days(self.budget.window_days)}, each person "
            f"charged for {self.times} of them {by.format(self.epsilon)} {self.needed:.3g}; "
            f"the budget has {self.room:g}"
        )

    @property
    def advice(self) -> str:
        """What fits, if this does not."""
        room = (
            f"the budget has room for {_checks(self.affordable)} in a window: ask less often, "
            f"rotate so that {_checks(self.checks)} ask different people (RotatingCohort), ask few "
            "clients in one standing session (Standing), "
        )
        if self.needed >= UNBOUNDED:
            delta = rounded(float(self.times * self.cost.delta), 3, ROUND_CEILING)
            return f"{room}or raise the budget's delta to {delta:g}"
        smaller = rounded(self.room / self.times, 2, ROUND_FLOOR)
        larger = rounded(self.needed + self.budget.epsilon - self.room, 3, ROUND_CEILING)
        return f"{room}take ε = {smaller:g} a check, or raise the budget to {larger:g}"


def rounded(value: float, digits: int, rounding: str) -> float:
    """Round to so many significant digits, to the side on which what is advised fits."""
    return float(Context(prec=digits, rounding=rounding).create_decimal(str(value)))


def _checks(number: int) -> str:
    return "1 check" if number == 1 else f"{number:,} checks"
