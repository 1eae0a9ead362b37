"""Forecasts by simulated checks which drifts a check will find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, partial

import numpy as np
from scipy.special import ndtr, ndtri

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.search import root
from flwr_kld.infer.decision import ERRORS
from flwr_kld.infer.divergence_test import DivergenceTests, divergence_tests
from flwr_kld.infer.drift import Drift, Law
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.part_of_records import least_if_missed, missed_part
from flwr_kld.infer.power import SMALLEST, drawn_counts, in_cells
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner.setting import Setting

_COHORTS = 16
"""Cohorts that are drawn."""
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
    p, drawn = in_cells(law, plan), partial(drawn_counts, plan, setting.event)
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
    errors = [(one.value - threshold) / max(one.error.total, SMALLEST) for one in found]
    return min(power, float(ndtr(np.median(errors) - ERRORS)))


def _threshold_of(setting: Setting) -> float:
    if setting.threshold is None:
        raise ValueError("a check without a threshold decides nothing")
    return setting.threshold


def by_counts(setting: Setting, cohorts: Sequence[NoisyCounts]) -> DivergenceTests:
    """Read counts of cohorts as a check of a setting does that is about its own clients."""
    error = min(_YEARLY, 1 - setting.level)
    return divergence_tests(cohorts, error=error)


def _power_by_counts(setting: Setting, counts: Iterable[NoisyCounts]) -> float:
    """Probability that the bound exceeds the threshold, by cohorts that were drawn."""
    # How clients differ is no chance here. The statistic is nearly normal where it is small.
    found = by_counts(setting, list(counts))
    quantile = found.quantiles(_threshold_of(setting))
    usual = float(np.median(quantile))
    below = np.minimum(quantile - usual, 0)
    spread = max(math.sqrt(2 * float(np.mean(below**2))), _SPREAD)
    return float(ndtr((usual - found.needed(setting.level)[0]) / spread))


def smallest_drift(setting: Setting, plan: QueryPlan, drift: Drift) -> float | None:
    """Least D_θ, in nats, that is found with probability 0.8, or None."""

    @cache
    def excess(log_divergence: float, cohorts: int = _COHORTS) -> float:
        law = drift.at(math.exp(log_divergence))
        power = power_of(setting, plan, law, cohorts=cohorts)
        return float(ndtri(min(max(power, _RARE), 1 - _RARE)) - ndtri(_POWER))

    least, most = max(SMALLEST, setting.threshold or 0.0), drift.largest
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
