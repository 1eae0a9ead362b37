"""Counts with their noise: public, and all that estimators, reports and plots take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.release import Release
from flwr_kld.query.plan import QueryPlan


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Public: a cohort's counts after the noise, with the law of that noise.

    Parameters
    ----------
    values : NDArray[np.int64]
        Shape [cells], in records; may be negative.
    records : float
        Number of records, exact or estimated, at least 1.
    event : Release
        What the release cost, and its noise table.
    plan : QueryPlan
        What was asked.
    private : bool
        False if the noise came from a seed.

    Raises
    ------
    ValueError
        If there is not one value a cell.
    """

    values: NDArray[np.int64]
    records: float
    event: Release
    plan: QueryPlan
    private: bool

    def __post_init__(self) -> None:
        if self.values.shape != (self.plan.cells,):
            raise ValueError("there must be one count for each cell of the plan")

    @cached_property
    def columns(self) -> tuple[NoisyCounts, ...]:
        """Counts of each column of a table, with the noise of all; else these alone."""
        parts = zip(self.plan.columns, self.plan.parts, strict=True)
        return tuple(replace(self, values=self.values[part], plan=plan) for plan, part in parts)

    @property
    def noise(self) -> NoiseTable:
        """Law of the noise in each cell."""
        return self.event.noise
