"""The estimator of the population's D_θ: empirical Bayes for the ratios ``r = P / Π``.

1. r has a law, and which one is averaged over (`law_average`): many shapes of drift
   (`drift_shapes`), the best of them also with a free smooth factor (`free_law`); their mean is one
   level, or follows a line in ln Π that bends (`trend`).
2. A cell's count is Poisson with mean N Π r, and the law of its noise is known: both are taken
   exactly. A count that tells r more finely than the grid is read as it is, less the second-order
   bias of φ.
3. Sum of posterior means, T = Σ w E[φ(r) | y]. The sum S of N Π r over the cells is known, from N
   and the cells that are not scored: T is conditioned on it as if both were normal.
4. Var T: what the counts leave open of each r, of the law and of the trend. D_θ is at least 0, so
   what is stated is its distance from T where it is.

Records that come in clusters tell less: counts of design effect e vary e times as much. They are
taken as negative binomial, which sums over many clients are whose laws vary around one.

Derivation: ``docs/proofs/estimates.md``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.inference.estimators.law_average import CAUTION, Seen, likely_laws
from flwr_kld.inference.estimators.ratio_cells import RatioCells
from flwr_kld.inference.estimators.result import Estimate, above_zero, assemble
from flwr_kld.inference.estimators.score import THETA, check_theta, score_ceiling
from flwr_kld.inference.estimators.trend import Counted, Trend, fit_trend

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts
    from flwr_kld.query.plan import QueryPlan


def posterior_ratios(
    counts: NoisyCounts, *, theta: float = THETA, effects: DesignEffects = INDEPENDENT
) -> Estimate:
    """Estimate D_θ of the population, which an undrifted cohort of any size reads as about 0.

    The likely design effect says what counts tell; its error allows for what it is on average.
    """
    theta = check_theta(theta)
    effect = max(effects.likely, 1.0)
    plan, noise = counts.plan, counts.noise.variance
    scored = np.flatnonzero(plan.weight > 0)
    total, total_variance = _total(counts, scored, effect)
    trend, rest = _trend(counts, scored, total, total_variance, effect)
    level, level_variance = _level(counts, rest, effect)
    cells = RatioCells(counts, scored, trend, level, theta, effects)
    seen = Seen(
        rows=(cells.rows_of_level, cells.of_trend[0]),
        groups=cells.groups,
        place_of=cells.place_of,
        rest=rest,
        rest_log_mean=trend.log_mean[len(scored) :],
        trend_evidence=trend.evidence,
        noise=noise,
        level=level,
        level_variance=level_variance,
        design_effect=effect,
    )
    laws = likely_laws(seen)
    found = cells.read(laws, total, total_variance)
    chance = np.exp(CAUTION * (found.evidence - found.evidence.max()))
    chance /= chance.sum()
    value = float(chance @ found.value)
    variance = float(chance @ (found.variance + (found.value - value) ** 2))
    ceiling = score_ceiling(theta)
    mean = np.full(len(scored), ceiling)
    if value <= ceiling * cells.weight.sum():
        mean = cells.scores(found, chance)
    # Poisson and noise answer for the error in proportion to their variance in the counts.
    by_records = effect * cells.expected * np.exp(cells.log_means)
    by_noise = cells.weight @ (noise / (noise + by_records))
    privacy = variance * by_noise / cells.weight.sum()
    # It is at least 1: where that is likely, its mean is above what is told of it.
    average = effects.likely + effects.doubt / 4
    sampling = max(average / effect, 1.0) * max(variance - privacy, 0.0)
    possible = above_zero(value, math.sqrt(sampling + privacy))
    return assemble(
        plan,
        mean=mean,
        sampling=math.sqrt(sampling * possible),
        privacy=math.sqrt(privacy * possible),
    )


def _total(counts: NoisyCounts, scored: NDArray[np.int64], effect: float) -> tuple[float, float]:
    """N P over the scored cells, as N and the other cells tell it, and its variance."""
    others = float(counts.values.sum() - counts.values[scored].sum())
    total = max(counts.records - others, 1.0)
    # A total that is itself the sum of the noisy cells tells nothing of their noise.
    cells = len(counts.values)
    noise = counts.noise.variance * (cells - len(scored) if counts.total_is_known else cells)
    return total, noise + effect * max(others, 0.0) * min(total / counts.records, 1.0)


def _rest(plan: QueryPlan) -> NDArray[np.int64]:
    """Cells that count many symbols of the reference together."""
    impossible = plan.reference.probabilities == 0
    outside = np.bincount(plan.cell_of, impossible, plan.cells) > 0
    return np.flatnonzero((plan.weight == 0) & ~outside)


def _level(counts: NoisyCounts, rest: Counted, effect: float) -> tuple[float, float]:
    """Return ln of the mean of r over all symbols that are counted, and its variance."""
    plan = counts.plan
    inside = np.concatenate([np.flatnonzero(plan.weight > 0), _rest(plan)])
    total, variance = _total(counts, inside, effect)
    expected = counts.records * plan.mass[plan.weight > 0].sum() + rest.expected.sum()
    return math.log(total / expected), (variance + effect * total) / total**2


def _trend(
    counts: NoisyCounts,
    scored: NDArray[np.int64],
    total: float,
    total_variance: float,
    effect: float,
) -> tuple[Trend, Counted]:
    """Fit the trend to the single symbols and to the remainders of the tail; return these, too."""
    plan = counts.plan
    mass = counts.records * plan.reference.probabilities
    read = np.concatenate([scored, _rest(plan)])
    log_mass = np.log(np.where(mass > 0, mass, 1.0))
    expected, logs, squares = (
        np.bincount(plan.cell_of, x, plan.cells)[read] for x in (mass, mass * log_mass, mass**2)
    )
    counted = Counted(
        value=counts.values[read].astype(np.float64),
        expected=expected,
        log_symbol=logs / expected,
        crowding=squares / expected**2,
        total=total,
        total_variance=total_variance,
        design_effect=effect,
    )
    trend = fit_trend(counted, counts.noise.variance, len(scored))
    return trend, counted.after(len(scored))
