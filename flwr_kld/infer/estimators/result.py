"""What estimators return: nats, where they come from, and three standard deviations.

`_FEW` records are a mean below which `_FEW_TERMS` terms of a Poisson law are summed, exactly but
for 1e-5. Halved or doubled, no error of the 24 questions of `drift_shapes` changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from flwr_kld.ask.plan import HEAD
from flwr_kld.infer.estimators.score import Floats, score

if TYPE_CHECKING:
    from flwr_kld.ask.plan import QueryPlan

_IMPOSSIBLE = 30.0  # Not tuned: deviations below 0 at which logarithms still tell a normal law
_FEW, _FEW_TERMS = 3.0, 14


@dataclass(frozen=True)
class ErrorSplit:
    """Standard deviations of an estimate, by cause, in nats."""

    # A finite cohort: how far D_θ of these records may lie from that of their population; for an
    # estimate of the population, how far it may be off because the cohort was finite
    sampling: float
    monte_carlo: float  # Asking about some symbols only; 0 where every symbol of Π has its own cell
    privacy: float  # The noise added to the counts, given what the cohort's counts are

    @property
    def total(self) -> float:
        """Root of the sum of squares, in nats."""
        return math.hypot(self.sampling, self.monte_carlo, self.privacy)


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimate of D_θ = KL(Π || (1 - θ) P + θ Π), reference first."""

    value: float  # The estimate, in nats
    # Standard deviations in nats. They leave out the estimator's own bias: alarm on a lower lower
    # bound, never on these.
    error: ErrorSplit


@dataclass(frozen=True, eq=False)
class Divergences:
    """Two estimates from the same counts."""

    population: Estimate  # D_θ of the law that the records were drawn from
    cohort: Estimate  # D_θ of the records themselves


def assemble(plan: QueryPlan, *, mean: Floats, sampling: float, privacy: float) -> Estimate:
    """Add scored cells up, of which `mean` has the mean scores."""
    value = float((plan.weight[plan.weight > 0] * mean).sum())
    error = ErrorSplit(sampling, _monte_carlo(plan, mean), privacy)
    return Estimate(value, error)


def noise_deviation(plan: QueryPlan, variance: Floats) -> float:
    """Deviation of the sum of independent scores, in nats, from the scored cells' variances."""
    return float(np.sqrt((plan.weight[plan.weight > 0] ** 2 * variance).sum()))


def above_zero(value: float, deviation: float) -> float:
    """Return how much of a normal law's variance its mean square about `value` is above 0."""
    from_zero = max(value / max(deviation, 1e-12), -_IMPOSSIBLE)
    log_density = -(from_zero**2) / 2 - math.log(2 * math.pi) / 2
    return 1 - from_zero * math.exp(log_density - float(scipy.special.log_ndtr(from_zero)))


def cohort_deviation(plan: QueryPlan, records: float, ratio: Floats, theta: float) -> float:
    """Estimate the deviation of D_θ over cohorts drawn from the same population, in nats."""
    # `ratio` is the estimated ``P / Π >= 0`` of each scored cell.
    #
    # Counts h of a population's cohort are Poisson(λ): the variance of φ(h / (N Π)) is summed
    # exactly below 3 records and taken from the forward difference above. A fixed number of records
    # makes the counts multinomial, which takes their common movement out: by Stein's identity its
    # size is ``Cov(h, φ) = λ E[φ(h + 1) - φ(h)]``.
    scored = plan.weight > 0
    weight, expected = plan.weight[scored], records * plan.mass[scored]
    count = expected * ratio

    def phi(h: Floats, at: Floats) -> Floats:
        # theta = 0 has no finite score at no records: half a record stands for it.
        return score((h if theta else np.maximum(h, 0.5)) / at, theta)

    step = phi(count + 1, expected) - phi(count, expected)
    variance, common = count * step**2, count * step
    few = count < _FEW
    mean, at = count[few], expected[few]
    h = np.arange(float(_FEW_TERMS))[:, None]
    chance = np.exp(-mean) * np.cumprod(np.vstack([np.ones_like(mean), mean / h[1:]]), axis=0)
    rise = phi(h, at) - phi(np.zeros(1), at)
    once = chance * rise
    variance[few] = (once * rise).sum(axis=0) - once.sum(axis=0) ** 2
    common[few] = (once * (h - mean)).sum(axis=0)
    left = (weight**2 * variance).sum() - (weight * common).sum() ** 2 / records
    return float(np.sqrt(max(left, 0.0)))


def _monte_carlo(plan: QueryPlan, mean: Floats) -> float:
    """Estimate the standard deviation over the plan's own draws, in nats."""
    scored = plan.weight > 0
    weight = plan.weight[scored]
    stratum, thinned = plan.stratum[scored], 1 - plan.inclusion[scored]
    variance = 0.0
    tail = stratum != HEAD
    for s in np.unique(stratum[tail]):
        inside = tail & (stratum == s)
        # One symbol alone says nothing of the spread in its bin: borrow the whole tail's.
        pool = inside if inside.sum() > 1 else tail
        values = weight[pool] * mean[pool]
        spread = values.var(ddof=1) if len(values) > 1 else float(values[0] ** 2)
        variance += float(thinned[inside].sum() * spread)
    return math.sqrt(variance)
