"""Numbers with their noise: public, and all that estimators, reports and plots take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.count import NUMBERS, Scores
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import Released
from flwr_kld.query.plan import QueryPlan


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Public: a cohort's counts after the noise, with the law of that noise."""

    values: NDArray[np.int64]  # Shape [cells], in records; may be negative
    records: float  # Number of records, exact or estimated, at least 1
    event: Release  # What the release cost, and its noise table
    plan: QueryPlan  # What was asked
    private: bool  # False if the noise came from a seed

    def __post_init__(self) -> None:
        if self.values.shape != (self.plan.cells,):
            raise ValueError("there must be one count for each cell of the plan")

    @cached_property
    def columns(self) -> dict[str, NoisyCounts]:
        """Counts of each column by name, with the noise of all."""
        parts = zip(self.plan.columns.items(), self.plan.parts, strict=True)
        return {
            name: replace(self, values=self.values[part], plan=plan) for (name, plan), part in parts
        }

    @property
    def noise(self) -> NoiseTable:
        """Law of the noise in each cell."""
        return self.event.noise


@dataclass(frozen=True, eq=False)
class ClientSums:
    """Public: sums over a cohort's clients after the noise, with the law of that noise."""

    steps: NDArray[np.int64]  # Shape [5 * columns], in the order of `NUMBERS`, in steps of `units`
    clients: int  # Number of clients in the sums
    event: Release  # What the release cost, and the noise table of each number, in steps
    plan: QueryPlan  # What was asked, with its `scores`
    private: bool  # False if the noise came from a seed

    @cached_property
    def columns(self) -> dict[str, ClientSums]:
        """Sums of each column by name."""
        steps = self.steps.reshape(-1, len(NUMBERS))
        columns = zip(steps, self.plan.columns.items(), strict=True)
        return {name: replace(self, steps=own, plan=plan) for own, (name, plan) in columns}

    @cached_property
    def scores(self) -> Scores:
        """What clients of one column added up; refused if of counts or several columns."""
        if self.plan.scores is None or len(self.plan.scores) != 1:
            raise ValueError("these are not the sums of one column")
        return self.plan.scores[0]

    @property
    def noise(self) -> NoiseTable:
        """Law of the noise in each number, in steps."""
        return self.event.noise

    def unit(self, number: str) -> float:
        """Return what one step of a number is worth, in score steps or records."""
        return float(self._units[NUMBERS.index(number)])

    def value(self, number: str) -> float:
        """Return one of `NUMBERS` in score steps, their squares or records."""
        return float(self.steps[NUMBERS.index(number)]) * self.unit(number)

    def deviation(self, number: str) -> float:
        """Return the standard deviation of the noise in a number, in the same units."""
        return math.sqrt(self.noise.variance) * self.unit(number)

    @cached_property
    def records(self) -> float:
        """Records in the sums, exact or estimated, at least 1; in a table the columns' mean."""
        return max(mean(column.value("records") for column in self.columns.values()), 1.0)

    @cached_property
    def _units(self) -> NDArray[np.float64]:
        return self.scores.units(self.event.guarantee)


def noisy(released: Released, plan: QueryPlan) -> NoisyCounts | ClientSums:
    """Return what was released of a plan's numbers, as estimators and decisions take it."""
    if released.records is None:
        return ClientSums(
            released.values, released.clients, released.release, plan, released.private
        )
    return NoisyCounts(released.values, released.records, released.release, plan, released.private)
