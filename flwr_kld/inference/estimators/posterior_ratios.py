"""The estimator of the population's D_θ: empirical Bayes for the ratios ``r = P / Π``.

1. The mean of r follows a quadratic in ln Π (`trend`); r over its mean has one law in all cells,
   of any smooth shape, candidates averaged by their evidence (`free_law`).
2. A cell's count is Poisson with mean N Π r, and the law of its noise is known: both are taken
   exactly. A count that tells r more finely than the grid is read as it is, less the second-order
   bias of φ.
3. Sum of posterior means, T = Σ w E[φ(r) | y]. The sum S of N Π r over the cells is known, from N
   and the cells that are not scored: T is conditioned on it as if both were normal.
4. Var T: what the counts leave open of each r, of the law and of the trend.

Derivation: ``docs/proofs/population-estimate.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.free_law import GRID, SPACING, FreeLaw, directions, fitted_laws
from flwr_kld.inference.estimators.groups import group_cells
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

NAME = "posterior_ratios"


def posterior_ratios(counts: NoisyCounts, *, theta: float = 0.01) -> Estimate:
    """Estimate D_θ of the population, which an undrifted cohort of any size reads as about 0.

    Finite at θ = 0 too, where a ratio below e^-8 of its mean is read as that.

    Parameters
    ----------
    counts : NoisyCounts
        Noisy counts, the law of their noise, and the plan.
    theta : float
        In [0, 1).

    Raises
    ------
    ValueError
        If theta is out of range.
    """
    theta = check_theta(theta)
    plan, noise = counts.plan, counts.noise.variance
    scored = np.flatnonzero(plan.weight > 0)
    total, total_variance = _total(counts, scored)
    trend = _trend(counts, scored, total, total_variance)
    cells = _Cells(counts, scored, trend, theta)
    laws = fitted_laws(cells.rows, cells.groups.size)
    found = [cells.read(law, total, total_variance) for law in laws]
    evidence = np.array([reading.evidence for reading in found])
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    values = np.array([reading.scores @ cells.weight for reading in found])
    variance = float(chance @ [reading.variance for reading in found])
    variance += float(chance @ (values - chance @ values) ** 2)
    scores = chance @ [reading.scores for reading in found]
    ceiling = score_ceiling(theta)
    mean = np.zeros(plan.cells)
    mean[scored] = scores if chance @ values <= ceiling * cells.weight.sum() else ceiling
    # Poisson and noise answer for the error in proportion to their variance in the counts.
    by_noise = cells.weight @ (noise / (noise + cells.expected * np.exp(trend.log_mean)))
    privacy = variance * by_noise / cells.weight.sum()
    return assemble(
        plan,
        theta=theta,
        estimator=NAME,
        target="population",
        mean=mean,
        sampling=math.sqrt(max(variance - privacy, 0.0)),
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
        log_mean = np.bincount(in_bin, trend.log_mean) / size
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
        design = np.stack([np.bincount(in_bin, column) / size for column in trend.design.T], axis=1)
        self._design = design[groups.bin_of]

    def _summed(self, of_cell: Floats) -> Floats:
        """Sum a number over the cells of each group that are not read as they are."""
        sums = np.bincount(self.groups.of, of_cell * ~self.direct, len(self.groups.size))
        return np.asarray(sums, dtype=np.float64)

    def read(self, law: FreeLaw, total: float, total_variance: float) -> _Reading:
        """Read the cells by one law, their sum being known."""
        share = self.rows * law.weights
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
        if len(law.covariance):
            along = directions()
            mean = share @ along
            by_law = np.stack([
                weights @ ((share * self._score) @ along - score_[:, None] * mean),
                masses @ ((share * self._ratio) @ along - ratio[:, None] * mean),
            ])  # fmt: skip
            covariance += by_law @ law.covariance @ by_law.T
        # Where the count tells u, it is not the trend that does.
        told = np.minimum(_variance(share) / max(_variance(law.weights[None])[0], 1e-9), 1.0)
        if not len(law.covariance):
            told = np.ones(len(share))
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


def _trend(
    counts: NoisyCounts, scored: NDArray[np.int64], total: float, total_variance: float
) -> Trend:
    """Fit the trend to the single symbols and to the remainders of the tail."""
    plan = counts.plan
    mass = counts.records * plan.reference.probabilities
    impossible = np.bincount(plan.cell_of, mass == 0, plan.cells) > 0
    rest = np.flatnonzero((plan.weight == 0) & ~impossible)
    read = np.concatenate([scored, rest])
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
    return fit_trend(counted, counts.noise.variance, len(scored))
