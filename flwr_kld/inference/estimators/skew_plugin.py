"""The plain reading of noisy counts: put them in, with negative ones taken as zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.errors import EstimateUndefined
from flwr_kld.inference.estimators.result import (
    Estimate,
    assemble,
    cohort_deviation,
    noise_deviation,
)
from flwr_kld.inference.estimators.score import check_theta, score

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts

NAME = "skew_plugin"
_QUANTILES = 33


def skew_plugin(counts: NoisyCounts, *, theta: float = 0.01) -> Estimate:
    """Estimate D_θ by ``Σ w φ(max(y, 0) / (N Π))``.

    Nothing is assumed about the counts, so it is biased wherever they are no larger than the
    noise, upwards if P = Π.
    """
    theta = check_theta(theta)
    plan, y = counts.plan, counts.values
    scored = plan.weight > 0
    if theta == 0 and (y[scored] <= 0).any():
        raise EstimateUndefined(
            "theta=0 is infinite here: a noisy count is not positive; use theta=0.01"
        )
    expected = np.where(scored, counts.records * plan.mass, 1.0)
    floor = 0.0 if theta else 1.0
    # Var of the score over fresh noise around y, from equally likely values of the noise.
    below = np.cumsum(counts.noise.probabilities)
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    steps = counts.noise.support[np.minimum(np.searchsorted(below, levels), len(below) - 1)]
    first, second = np.zeros(len(y)), np.zeros(len(y))
    centre = score(np.maximum(y, floor) / expected, theta)
    for step in steps:
        moved = score(np.maximum(y + step, floor) / expected, theta) - centre
        first += moved / _QUANTILES
        second += moved**2 / _QUANTILES
    return assemble(
        plan,
        theta=theta,
        estimator=NAME,
        target="cohort",
        mean=centre,
        sampling=cohort_deviation(plan, counts.records, np.maximum(y, 0) / expected, theta),
        privacy=noise_deviation(plan, np.maximum(second - first**2, 0.0)),
    )
