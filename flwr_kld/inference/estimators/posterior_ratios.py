"""The estimator of the population's D_θ: empirical Bayes for the ratios ``r = P / Π``.

1. r has a law, and which one is averaged over (`law_average`): many shapes of drift
   (`drift_shapes`), the best of them also with a free smooth factor (`free_law`); their mean is one
   level, or follows a quadratic in ln Π (`trend`).
2. A cell's count is Poisson with mean N Π r, and the law of its noise is known: both are taken
   exactly. A count that tells r more finely than the grid is read as it is, less the second-order
   bias of φ.
3. Sum of posterior means, T = Σ w E[φ(r) | y]. The sum S of N Π r over the cells is known, from N
   and the cells that are not scored: T is conditioned on it as if both were normal.
4. Var T: what the counts leave open of each r, of the law and of the trend. Records that come in
   clusters tell less: evidence is divided by their design effect, and the variance that is not the
   noise's multiplied by it.

Derivation: ``docs/proofs/population-estimate.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import real
from flwr_kld.inference.estimators.free_law import GRID, SPACING, RatioLaw, directions
from flwr_kld.inference.estimators.groups import group_cells
from flwr_kld.inference.estimators.law_average import Seen, likely_laws
from flwr_kld.inference.estimators.ratio_likelihood import ratio_likelihood
from flwr_kld.inference.estimators.result import Estimate, assemble
from flwr_kld.inference.estimators.score import (
    Floats,
    check_theta,
    score,
    score_ceiling,
    score_slope,
)
from flwr_kld.inference.estimators.trend import Counted, Trend, fit_trend
from flwr_kld.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts
    from flwr_kld.query.plan import QueryPlan

NAME = "posterior_ratios"


def posterior_ratios(
    counts: NoisyCounts, *, theta: float = 0.01, design_effect: float = 1.0
) -> Estimate:
    """Estimate D_θ of the population, which an undrifted cohort of any size reads as about 0.

    Finite at θ = 0 too, where a ratio below e^-8 of its mean is read as that.

    Parameters
    ----------
    counts : NoisyCounts
        Noisy counts, the law of their noise, and the plan.
    theta : float
        In [0, 1).
    design_effect : float
        >= 1: N records tell as much as ``N / design_effect`` independent ones.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    theta = check_theta(theta)
    design_effect = real("design_effect", design_effect, least=1)
    plan, noise = counts.plan, counts.noise.variance
    scored = np.flatnonzero(plan.weight > 0)
    total, total_variance = _total(counts, scored)
    trend, rest = _trend(counts, scored, total, total_variance)
    cells = _Cells(counts, scored, trend, theta)
    laws, power = likely_laws(_seen(counts, cells, rest), design_effect)
    found = [cells.read(law, total, total_variance) for law in laws]
    evidence = np.array([reading.evidence for reading in found])
    chance = np.exp(power * (evidence - evidence.max()))
    chance /= chance.sum()
    values = np.array([reading.scores @ cells.weight for reading in found])
    variance = float(chance @ [reading.variance for reading in found])
    variance += float(chance @ (values - chance @ values) ** 2)
    scores = chance @ [reading.scores for reading in found]
    ceiling = score_ceiling(theta)
    mean = np.zeros(plan.cells)
    mean[scored] = scores if chance @ values <= ceiling * cells.weight.sum() else ceiling
    # Poisson and noise answer for the error in proportion to their variance in the counts.
    by_noise = cells.weight @ (noise / (noise + cells.expected * np.exp(cells.log_means)))
    privacy = variance * by_noise / cells.weight.sum()
    sampling = design_effect * max(variance - privacy, 0.0)
    return assemble(
        plan,
        theta=theta,
        estimator=NAME,
        target="population",
        mean=mean,
        sampling=math.sqrt(sampling),
        privacy=math.sqrt(privacy),
    )


@dataclass(frozen=True, eq=False)
class _Reading:
    """What one law says: scores of the cells [S], variance of their sum, ln of its evidence."""

    scores: Floats
    variance: float
    evidence: float


class _Cells:
    """The S scored cells, their groups, and the likelihood of each group on the grid."""

    def __init__(
        self, counts: NoisyCounts, scored: NDArray[np.int64], trend: Trend, theta: float
    ) -> None:
        plan, self.trend, noise = counts.plan, trend, counts.noise.variance
        self.weight = plan.weight[scored]
        self.expected = counts.records * plan.mass[scored]
        y = counts.values[scored].astype(np.float64)
        self.groups = groups = group_cells(counts.values[scored], self.expected, math.sqrt(noise))
        in_bin = groups.bin_of[groups.of]
        size = np.bincount(in_bin)
        self.log_means = trend.log_mean[: len(scored)]
        self.log_mean = log_mean = np.bincount(in_bin, self.log_means) / size
        self.rows = ratio_likelihood(groups, counts.noise, log_mean)

        above = np.log(np.maximum(y, 1.0) / self.expected) - log_mean[in_bin]
        finest = np.interp(above, GRID, SPACING)
        self.direct = (y > 0) & (y + noise < (finest * y) ** 2)
        ratio = np.where(self.direct, y / self.expected, 1.0)
        slope = score_slope(ratio, theta)
        self._count, self._count_variance = y, y + noise
        # φ'' = φ'², and a count of mean N Π r has variance N Π r + noise.
        by_count = slope**2 * self._count_variance / self.expected**2
        self._direct_score = score(ratio, theta) - by_count / 2
        self._slope, self._score_variance = slope / self.expected, by_count

        r = np.exp(log_mean[:, None] + GRID)
        if theta:
            r[:, 0] = 0.0
        self._ratio = r[groups.bin_of]
        self._score = score(r, theta)[groups.bin_of]
        self._growth = (score_slope(r, theta) * r)[groups.bin_of]
        columns = trend.design[: len(scored)].T
        design = np.stack([np.bincount(in_bin, column) / size for column in columns], axis=1)
        self._design = design[groups.bin_of]

    def _summed(self, of_cell: Floats) -> Floats:
        """Sum a number over the cells of each group that are not read as they are."""
        sums = np.bincount(self.groups.of, of_cell * ~self.direct, len(self.groups.size))
        return np.asarray(sums, dtype=np.float64)

    def read(self, law: RatioLaw, total: float, total_variance: float) -> _Reading:
        """Read the cells by one law, their sum being known."""
        prior = law.weights[self.groups.bin_of]
        share = self.rows * prior
        share /= share.sum(axis=1, keepdims=True)
        score_, ratio = (share * self._score).sum(axis=1), (share * self._ratio).sum(axis=1)
        w, m, of, direct = self.weight, self.expected, self.groups.of, self.direct
        scores = np.where(direct, self._direct_score, score_[of])
        held = np.where(direct, self._count, m * ratio[of])

        # Covariance of (T, S): cells by themselves, the law's coefficients, the trend's.
        both = (share * self._score * self._ratio).sum(axis=1) - score_ * ratio
        squares = [
            (share * x**2).sum(axis=1) - mean**2
            for x, mean in ((self._score, score_), (self._ratio, ratio))
        ]
        crossed = np.where(direct, self._slope * self._count_variance, m * both[of])
        var_score = np.where(direct, self._score_variance, squares[0][of])
        var_held = np.where(direct, self._count_variance, m**2 * squares[1][of])
        across = float(w @ crossed)
        covariance = np.array([[w**2 @ var_score, across], [across, var_held.sum()]])
        weights, masses = self._summed(w), self._summed(m)
        if law.covariance is not None:
            along = directions()
            mean = share @ along
            by_law = np.stack([
                weights @ ((share * self._score) @ along - score_[:, None] * mean),
                masses @ ((share * self._ratio) @ along - ratio[:, None] * mean),
            ])  # fmt: skip
            covariance += by_law @ law.covariance @ by_law.T
        if law.trended:
            # Where the count tells u, it is not the trend that does.
            open_, known = _variance(share), _variance(prior)
            told = np.minimum(open_ / np.where(known > 0, known, np.inf), 1.0)
            told[known == 0] = 1.0
            growth = (share * self._growth).sum(axis=1)
            by_trend = np.stack(
                [(weights * told * growth) @ self._design, (masses * told * ratio) @ self._design]
            )
            covariance += by_trend @ self.trend.covariance @ by_trend.T

        spread = max(float(covariance[1, 1]) + total_variance, 1e-9)
        gap = total - float(held.sum())
        shift = gap / spread
        scores = scores + shift * crossed
        scores += shift * (covariance[0, 1] - across) / w.sum()
        variance = covariance[0, 0] - covariance[0, 1] ** 2 / spread
        evidence = law.evidence - gap**2 / spread / 2 - math.log(spread) / 2
        return _Reading(scores, max(float(variance), 0.0), evidence)


def _variance(share: Floats) -> Floats:
    """Variance of u in each row of shares, [G]."""
    mean = share @ GRID
    variance: Floats = np.maximum(share @ GRID**2 - mean**2, 0.0)
    return variance


def _total(counts: NoisyCounts, scored: NDArray[np.int64]) -> tuple[float, float]:
    """N P over the scored cells, as N and the other cells tell it, and its variance."""
    others = float(counts.values.sum() - counts.values[scored].sum())
    total = max(counts.records - others, 1.0)
    # A total that is itself the sum of the noisy cells tells nothing of their noise.
    exact = counts.event.guarantee.adjacency is Adjacency.REPLACE_ONE
    cells = len(counts.values)
    noise = counts.noise.variance * (cells - len(scored) if exact else cells)
    return total, noise + max(others, 0.0) * min(total / counts.records, 1.0)


def _rest(plan: QueryPlan) -> NDArray[np.int64]:
    """Cells that count many symbols of the reference together."""
    impossible = plan.reference.probabilities == 0
    outside = np.bincount(plan.cell_of, impossible, plan.cells) > 0
    return np.flatnonzero((plan.weight == 0) & ~outside)


def _seen(counts: NoisyCounts, cells: _Cells, rest: Counted) -> Seen:
    """Return what laws are held against."""
    plan = counts.plan
    inside = np.concatenate([np.flatnonzero(plan.weight > 0), _rest(plan)])
    total, variance = _total(counts, inside)
    scored = len(cells.expected)
    return Seen(
        rows=cells.rows,
        groups=cells.groups,
        log_mean=cells.log_mean,
        rest=rest,
        rest_log_mean=cells.trend.log_mean[scored:],
        trend_evidence=cells.trend.evidence,
        noise=counts.noise.variance,
        level=math.log(total / (cells.expected.sum() + rest.expected.sum())),
        level_variance=(variance + total) / total**2,
    )


def _trend(
    counts: NoisyCounts, scored: NDArray[np.int64], total: float, total_variance: float
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
    )
    trend = fit_trend(counted, counts.noise.variance, len(scored))
    return trend, counted.after(len(scored))
