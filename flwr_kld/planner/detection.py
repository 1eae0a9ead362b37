"""The smallest drift that the lower bound will find: both halves, on cohorts that are drawn."""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import Witness
from flwr_kld.planner.cohort import draw_cohorts, published
from flwr_kld.planner.drift import Drift, Law, largest_divergence
from flwr_kld.planner.setting import Setting
from flwr_kld.privacy.bits import SeededBits
from flwr_kld.query.plan import QueryPlan
from flwr_kld.query.selection import Selection

_WITNESSES, _BOUNDS = 16, 16
"""First halves that are drawn, and second halves for each of them."""
_SMALLEST = 1e-4
"""Nats below which nobody looks."""
_PRECISION = 1.05
"""Ratio of neighbouring divergences that are told apart."""


def power_of(setting: Setting, plan: QueryPlan, law: Law) -> float:
    """Probability that the lower bound exceeds the threshold; deterministic.

    Parameters
    ----------
    law : Law
        P over symbols, shape [domain.size].

    Raises
    ------
    ValueError
        If the setting has no threshold.
    """
    if setting.threshold is None:
        raise ValueError("a check without a threshold decides nothing")
    p = np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)
    event, generator, bits = setting.event, np.random.default_rng(0), SeededBits(0)
    found = 0
    for h in draw_cohorts(p, setting.total, setting.design_effect, _WITNESSES, generator):
        witness = Witness.from_counts(
            published(h, plan, event, bits),
            theta=setting.theta,
            groups=setting.groups,
            level=setting.level,
        )
        q = np.asarray(np.bincount(witness.level_of, p), dtype=np.float64)
        asked = witness.query_plan().over(Selection(groups=setting.groups))
        in_groups = draw_cohorts(
            q,
            setting.total // setting.groups,
            setting.design_effect,
            _BOUNDS * setting.groups,
            generator,
        ).reshape(_BOUNDS, setting.groups, len(q))
        for second in in_groups:
            bound = lower_confidence_bound(
                witness,
                published(second.T.reshape(-1), asked, event, bits),
                theta=setting.theta,
                level=setting.level,
            )
            found += bound.lower > setting.threshold
    return found / (_WITNESSES * _BOUNDS)


def smallest_drift(setting: Setting, plan: QueryPlan, drift: Drift) -> float | None:
    """Least D_θ of the population, in nats, that is found with the setting's power.

    None if even the largest is not. Bisection in ln D_θ.
    """

    def enough(divergence: float) -> bool:
        law = drift.at(divergence, setting.theta)
        return power_of(setting, plan, law) >= setting.power

    low = max(_SMALLEST, setting.threshold or 0.0)
    high = largest_divergence(drift, setting.theta)
    if low >= high or not enough(high):
        return None
    while high > _PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
