"""Noised counts and labels: public, and the only input of estimators, reports and plots."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.kernel.count import alike_sensitivity
from flwr_kld.kernel.law import RATIO_BITS, NoiseTable, to_counts
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import Released

_SHOWS = 2.0
"""Standard deviations of the noise above which a number of frozen records is one."""


@lru_cache(maxsize=32)
def on_coarser_grid(law: NoiseTable, grid: int) -> NoiseTable:
    """Return the law that noise has after `to_counts`.

    ``round((grid h + Z) / grid) = h + round(Z / grid)`` for integers h: post-processing. Each
    `grid` steps of the tail are one beyond the table, none nearer than it is.

    Parameters
    ----------
    law : NoiseTable
        Of Z, in grid steps.
    grid : int
        Grid steps a count; odd, so that nothing lies half way.
    """
    if grid == 1:
        return law
    half = grid // 2
    reach = -(-law.reach // grid)
    wide = [0] * (reach * grid + half - law.reach)
    steps = [*wide, *law.weights, *wide]
    weights = [sum(steps[i : i + grid]) for i in range(0, len(steps), grid)]
    while weights[0] == 0:
        weights = weights[1:-1]
    ratio = min((law.tail_ratio**grid >> RATIO_BITS * (grid - 1)) + 1, (1 << RATIO_BITS) - 1)
    return NoiseTable(tuple(weights), law.tail, ratio if law.tail else 0)


def noise_in_counts(release: Release, plan: QueryPlan) -> NoiseTable:
    """Law of the noise in each cell of a column, in counts; refused if columns differ in it."""
    (steps,) = set(plan.allotment.counts)
    return on_coarser_grid(release.noise, steps)


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Public: a cohort's counts after the noise, with the law of that noise."""

    values: NDArray[np.int64]  # Shape [cells], in records; may be negative
    records: float  # Number of records, exact or estimated, at least 1
    event: Release  # What the release cost, and its noise table
    plan: QueryPlan  # What was asked
    private: bool  # False if the noise came from a seed
    # Records that are alike within their clients, noisy, one number a column (`alike_records`);
    # empty if they were not asked
    alike: tuple[float, ...] = ()
    part: bool = False  # Whether these are only some records of those that were counted
    # Records of a standing session that are counted as what they no longer are, noisy
    frozen: float = 0.0

    def __post_init__(self) -> None:
        if self.values.shape != (self.plan.cells,):
            raise ValueError("there must be one count for each cell of the plan")

    @cached_property
    def columns(self) -> dict[str, NoisyCounts]:
        """Counts of each column by name, with the noise of all."""
        alike = zip(self.alike) if self.alike else [()] * len(self.plan.parts)
        parts = zip(self.plan.columns.items(), self.plan.parts, alike, strict=True)
        return {
            name: replace(self, values=self.values[part], plan=plan, alike=own)
            for (name, plan), part, own in parts
        }

    @property
    def total_is_known(self) -> bool:
        """Whether `records` is exact: else it is the sum of the noisy counts."""
        return self.plan.layout.total_is_public(self.event.guarantee) and not self.part

    @property
    def noise(self) -> NoiseTable:
        """Law of the noise in each cell of a column, in counts; refused if columns differ in it."""
        return noise_in_counts(self.event, self.plan)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in a count, in records; of the column with most."""
        steps = set(self.plan.allotment.counts)
        return math.sqrt(max(on_coarser_grid(self.event.noise, n).variance for n in steps))

    @property
    def frozen_share(self) -> float:
        """Part of the records that is frozen, 0 where noise may be all of it."""
        noise = _SHOWS * math.sqrt(self.event.noise.variance)
        return min(self.frozen / self.records, 1.0) if self.frozen > noise else 0.0

    @property
    def noise_in_alike(self) -> float:
        """Standard deviation of the noise in a number of alike records."""
        steps = self.plan.allotment.alike / alike_sensitivity(self.event.guarantee)
        return math.sqrt(self.event.noise.variance) / steps


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Public: the labels that were shown, each with the number of its records after the noise."""

    counts: dict[str, int]  # The most frequent first
    event: Release  # What the release cost, and the law of its noise
    private: bool  # False if the noise came from a seed

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in a count, in records, shown or not."""
        return math.sqrt(self.event.noise.variance)


def noisy(released: Released, plan: QueryPlan) -> NoisyCounts | NoisyLabels:
    """Return what was released of a plan's numbers, as estimators and decisions take it."""
    values, release, private = released.values, released.release, released.private
    if plan.unlisted_labels is not None:
        shown = dict(zip(released.labels, values.tolist(), strict=True))
        return NoisyLabels(shown, release, private)
    steps, records = plan.allotment, float(released.records or 1.0)
    counts = [
        to_counts(values[part], own) for part, own in zip(plan.parts, steps.counts, strict=True)
    ]
    worth, beside = alike_sensitivity(release.guarantee) / max(steps.alike, 1), values[plan.cells :]
    alike = tuple((worth * beside).tolist()) if steps.alike else ()
    frozen = 0.0 if steps.alike else float(beside.sum())
    return NoisyCounts(
        np.concatenate(counts), records, release, plan, private, alike, frozen=frozen
    )
