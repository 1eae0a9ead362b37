"""PRIEST-KLD's estimator with its signs put right, and the same plain reading of D_θ.

Functions for ``KLDrift(estimator=...)``, as anybody's own; `posterior_counts` errs far less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.errors import EstimateUndefined
from flwr_kld.inference.estimators.result import (
    Estimate,
    assemble,
    cohort_deviation,
    noise_deviation,
)
from flwr_kld.inference.estimators.score import check_theta, score
from flwr_kld.kernel.arguments import keep, real, whole
from flwr_kld.query.plan import HEAD, LONGEST, QueryPlan, joined, outside_cells
from flwr_kld.reference import Reference

if TYPE_CHECKING:
    from flwr_kld.inference.estimators.registry import Estimator
    from flwr_kld.query.noisy import NoisyCounts


@dataclass(frozen=True)
class MonteCarlo:
    """T symbols drawn iid from Π, with multiplicities (PRIEST-KLD, Algorithms 1-3, line 1)."""

    draws: int = 1000

    def __post_init__(self) -> None:
        keep(self, draws=whole("draws", self.draws, least=1, most=LONGEST))

    def draw(self, reference: Reference, generator: np.random.Generator) -> QueryPlan:
        """Draw the symbols of one check, of a table in each column."""
        if reference.is_table:
            columns = reference.columns.values()
            return joined(reference, [self.draw(column, generator) for column in columns])
        symbols, times = np.unique(reference.draw(self.draws, generator), return_counts=True)
        cell_of = np.full(reference.domain.size, len(symbols), dtype=np.int32)
        cell_of[symbols] = np.arange(len(symbols))
        others = int(len(symbols) < np.count_nonzero(reference.probabilities))
        cells = outside_cells(reference, cell_of, len(symbols) + others)
        weight = np.zeros(cells)
        weight[: len(symbols)] = times / self.draws
        return QueryPlan(
            reference,
            cell_of,
            weight,
            inclusion=np.ones(cells),
            stratum=np.full(cells, HEAD),
            draws=self.draws,
        )


_QUANTILES = 33


def skew_plugin(counts: NoisyCounts, *, theta: float = 0.01) -> Estimate:
    """Estimate D_θ by ``Σ w φ(max(y, 0) / (N Π))``, biased where counts hardly exceed the noise."""
    # Nothing is assumed about the counts, so it is biased wherever they are no larger than the
    # noise, upwards if P = Π.
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
        estimator="skew_plugin",
        target="cohort",
        mean=centre,
        sampling=cohort_deviation(plan, counts.records, np.maximum(y, 0) / expected, theta),
        privacy=noise_deviation(plan, np.maximum(second - first**2, 0.0)),
    )


def paper(
    counts: NoisyCounts, *, theta: float = 0.0, lam: float = 0.0, tau: float = 1e-6
) -> Estimate:
    """Estimate plain KL(Π || P) by ``Σ w [λ (r - 1) - ln r]`` (PRIEST-KLD, Algorithms 1-3)."""
    # ``r = max(y / N, τ) / Π``. The paper's Algorithm 2 prints ``(A + B) / T``, which targets the
    # negative divergence. The clip at τ biases the number heavily where counts are small; no θ can
    # be asked of it, so its estimand is always θ = 0.
    theta = check_theta(theta)
    lam, tau = real("lam", lam, least=0), real("tau", tau, above=0)
    plan, records = counts.plan, counts.records
    mass = np.where(plan.weight > 0, plan.mass, 1.0)
    ratio = np.maximum(counts.values / records, tau) / mass
    # Noise does not move a clipped count, to first order.
    moves = np.where(counts.values / records > tau, (lam - 1 / ratio) / (records * mass), 0.0)
    return assemble(
        plan,
        theta=0.0,
        estimator="paper",
        target="cohort",
        mean=lam * (ratio - 1) - np.log(ratio),
        sampling=cohort_deviation(plan, records, ratio, 0.0),
        privacy=noise_deviation(plan, moves**2 * counts.noise.variance),
    )


BASELINES: MappingProxyType[str, Estimator] = MappingProxyType(
    {"skew_plugin": skew_plugin, "paper": paper}
)
"""By the names that tables give them."""


def variance_bound(pi: NDArray[np.float64], p: NDArray[np.float64], lam: float) -> float:
    """T times the right side of PRIEST-KLD's Theorem 4.4, without σ²; infinite as β is."""
    with np.errstate(divide="ignore"):
        ratio = p / pi
        alpha, beta = ratio.max(), (1 / ratio).max()
        forward, backward = -pi @ np.log(ratio), p[p > 0] @ np.log(ratio[p > 0])
    if np.isinf(beta):
        return math.inf
    spread = max(alpha - 1, beta**2 - 1) + forward**2
    return float(lam**2 * (alpha - 1) + spread - 2 * lam * (forward + backward))
