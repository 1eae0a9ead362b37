"""How far an estimate will lie from the truth: the estimator itself, on cohorts that are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import Estimator, estimate
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner.cohort import draw_cohorts, published
from flwr_kld.planner.drift import Law
from flwr_kld.planner.setting import Setting
from flwr_kld.query.plan import QueryPlan

_COHORTS = 24
"""The relative error of a predicted deviation is about ``1 / sqrt(2 · 24)`` = 14 %."""


@dataclass(frozen=True)
class Accuracy:
    """What to expect of an estimate, in nats."""

    truth: float  # D_θ of the population
    reading: float  # Mean estimate
    # Root mean square of the distance of the cohort's own D_θ from the population's. A cohort that
    # is small for its domain lies far from its population, on average too.
    sampling: float
    # Root mean square of the distance of the estimate from what it is about, the cohort's D_θ or
    # the population's: noise, symbols that were not asked, and the estimator's bias
    privacy: float
    error: float  # Root mean square of the distance of the estimate from the population's D_θ


def expected_accuracy(
    setting: Setting, plan: QueryPlan, law: Law, *, estimator: str | Estimator
) -> Accuracy:
    """Try the estimator on cohorts drawn from a law; deterministic."""
    # Shapes: law [domain.size].
    p, theta, event = plan.reference.probabilities, setting.theta, setting.event
    truth = max(skewed_divergence(p, law, theta), 0.0)
    generator, bits = np.random.default_rng(0), SeededBits(0)
    own, target, reading = np.empty((3, _COHORTS))
    for i in range(_COHORTS):
        (h,) = draw_cohorts(law, setting.total, setting.design_effect, 1, generator)
        in_cells = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
        told = estimate(published(in_cells, plan, event, bits), estimator=estimator, theta=theta)
        own[i], reading[i] = skewed_divergence(p, h, theta), told.value
        target[i] = own[i] if told.target == "cohort" else truth
    return Accuracy(
        truth=truth,
        reading=float(reading.mean()),
        sampling=_distance(own, truth),
        privacy=_distance(reading, target),
        error=_distance(reading, truth),
    )


def _distance(a: Law, b: Law | float) -> float:
    return float(np.sqrt(((a - b) ** 2).mean()))
