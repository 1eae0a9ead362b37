"""Forecasts by simulated checks what a check will find, and what its estimate will be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.special import ndtr, ndtri

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.search import root
from flwr_kld.infer.allowance import Allowance
from flwr_kld.infer.decision import ERRORS, LIKELY
from flwr_kld.infer.divergence_test import DivergenceTest, divergence_test
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.part_of_records import least_if_missed, missed_part
from flwr_kld.kernel.law import BitSource, SeededBits
from flwr_kld.kernel.release import Release
from flwr_kld.planner.drift import Drift, Law, Shape
from flwr_kld.planner.setting import Setting, draw_cohorts, published

_COHORTS = 16
"""Cohorts that are drawn."""
USUAL: tuple[Shape, ...] = ("spread", "tilted", "vanishing", "one symbol")
"""Shapes of drifts that a check which says "no alarm" would have seen."""
_ESTIMATES, _ERROR = 6, 0.05
"""Estimates that are drawn for each drift, and what a power by so few may be off by."""
_LEAST = 0.02
"""Standard deviation of the root of an estimate, at least, in roots of nats."""
_SMALLEST = 1e-4
"""Nats below which nobody looks."""
_YEARLY = 1e-2 / 365
"""Level of a single check where a year of them errs with 5 %, a fifth of it for single ones."""
_SPREAD = 0.5
"""Standard deviation of a forecast test's quantile, at least: few cohorts estimate it badly."""
_NEAR = 0.15
"""Relative distance of drifts between which the quantile of the power is taken for linear."""
_RARE = 1e-9
_POWER = 0.8
"""Probability with which the smallest drift is found."""


def power_of(setting: Setting, plan: QueryPlan, law: Law, *, cohorts: int = _COHORTS) -> float:
    """Probability that a check reports drift; deterministic."""
    generator, bits = np.random.default_rng(0), SeededBits(0)
    p, drawn = _in_cells(law, plan), partial(_drawn, plan, setting.event)
    power = _power_by_counts(setting, drawn(p, setting.total, 1.0, cohorts, generator, bits))
    if not setting.drawn:
        return power
    threshold, error = _threshold_of(setting), min(_YEARLY, 1 - setting.level)
    missed = missed_part(setting.clients, error)
    if least_if_missed(plan.mass, p, missed) <= threshold:
        return 0.0
    effects = DesignEffects(setting.design_effect, max(setting.records, setting.design_effect))
    found = [
        posterior_ratios(counts, effects=effects).population
        for counts in drawn(p, setting.total, setting.design_effect, cohorts, generator, bits)
    ]
    errors = [(one.value - threshold) / max(one.error.total, _SMALLEST) for one in found]
    return min(power, float(ndtr(np.median(errors) - ERRORS)))


def _in_cells(law: Law, plan: QueryPlan) -> Law:
    return np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)


def _drawn(
    plan: QueryPlan,
    event: Release,
    p: Law,
    records: float,
    design_effect: float,
    number: int,
    generator: np.random.Generator,
    bits: BitSource,
) -> Iterator[NoisyCounts]:
    """Publish the counts of cohorts that are drawn from a law over cells."""
    most = max(round(records), 2)
    effect = min(design_effect, most / 2)
    for h in draw_cohorts(p / p.sum(), most, effect, number, generator):
        yield published(h, plan, event, bits)


def _threshold_of(setting: Setting) -> float:
    if setting.threshold is None:
        raise ValueError("a check without a threshold decides nothing")
    return setting.threshold


def by_counts(setting: Setting, counts: NoisyCounts) -> DivergenceTest:
    """Read a cohort's counts as a check of a setting does that is about its own clients."""
    error = min(_YEARLY, 1 - setting.level)
    return divergence_test(counts, error=error)


def _power_by_counts(setting: Setting, counts: Iterable[NoisyCounts]) -> float:
    """Probability that the bound exceeds the threshold, by cohorts that were drawn."""
    # How clients differ is no chance here. The statistic is nearly normal where it is small.
    found = [by_counts(setting, one) for one in counts]
    quantile = np.array([one.quantile(_threshold_of(setting)) for one in found])
    usual = float(np.median(quantile))
    below = np.minimum(quantile - usual, 0)
    spread = max(math.sqrt(2 * float(np.mean(below**2))), _SPREAD)
    return float(ndtr((usual - found[0].needed(setting.level)) / spread))


@dataclass(frozen=True)
class Estimating:
    """What is public of the counts that a check's estimate of the population is made of."""

    plan: QueryPlan
    event: Release
    records: float
    design_effect: float
    threshold: float  # Nats above which an estimate shows a drift

    def seen_from(self, most: float, hidden: Allowance) -> float | None:
        """Return D_θ from which on drifts of the usual shapes are seen, in nats, within `most`.

        With probability `LIKELY` or more; None if some of them are not even there. Of D_θ from the
        law that a reference which is a sample was drawn from: the drifts that are forecast are away
        from the reference as it was counted.
        """
        away = most - math.sqrt(hidden.by_drift * most)
        if away <= self.threshold or (seen := self._seen_from(away)) > away:
            return None
        seen = max(seen, self.threshold)
        return hidden.at_most(min(max(seen, self._seen_from(seen)), away))

    def above(self, law: Law) -> float:
        """Return by about how many standard deviations the estimate is above the threshold."""
        roots = self._roots(law)
        return float((roots.mean() - math.sqrt(self.threshold)) / _deviation(roots))

    def _seen_from(self, divergence: float) -> float:
        """Return D_θ from which on drifts are seen, estimated from drifts of this D_θ."""
        # The root of an estimate is about normal: it grows with that of D_θ, and its spread hardly.
        drifts = [Drift(self.plan.reference, shape) for shape in USUAL]
        needed = [0.0]
        for drift in drifts:
            if divergence <= drift.largest:
                roots = self._roots(drift.at(divergence))
                enough = math.sqrt(self.threshold) + ndtri(LIKELY + _ERROR) * _deviation(roots)
                needed.append(divergence * (enough / max(float(roots.mean()), _SMALLEST)) ** 2)
        return max(needed)

    def _roots(self, law: Law) -> Law:
        """Draw estimates, and return their roots."""
        p, drawn = _in_cells(law, self.plan), (np.random.default_rng(0), SeededBits(0))
        effects = DesignEffects(self.design_effect, self.records)  # lots of any size
        sizes = self.records, self.design_effect, _ESTIMATES
        read = [
            posterior_ratios(counts, effects=effects).population.value
            for counts in _drawn(self.plan, self.event, p, *sizes, *drawn)
        ]
        return np.sqrt(np.maximum(read, 0))


def _deviation(roots: Law) -> float:
    return max(float(roots.std(ddof=1)), _LEAST)


def smallest_drift(setting: Setting, plan: QueryPlan, drift: Drift) -> float | None:
    """Least D_θ, in nats, that is found with probability 0.8, or None."""

    @cache
    def excess(log_divergence: float, cohorts: int = _COHORTS) -> float:
        law = drift.at(math.exp(log_divergence))
        power = power_of(setting, plan, law, cohorts=cohorts)
        return float(ndtri(min(max(power, _RARE), 1 - _RARE)) - ndtri(_POWER))

    least, most = max(_SMALLEST, setting.threshold or 0.0), drift.largest
    if least >= most:
        return None
    low, high = math.log(least), math.log(most)
    # Where two cohorts find it, all of them do, about; between two steps they are all but linear.
    ends = excess(low, cohorts=2), excess(high, cohorts=2)
    x = low if ends[0] >= 0 else high
    if ends[0] < 0 < ends[1]:
        x = root(partial(excess, cohorts=2), low, high, within=_NEAR)
    here = excess(x)
    while True:
        step = min(max(x - math.copysign(_NEAR, here), low), high)
        if step == x:
            return least if x == low else None
        there = excess(step)
        if (here < 0) is not (there < 0):
            return math.exp(x + (step - x) * here / (here - there))
        x, here = step, there
