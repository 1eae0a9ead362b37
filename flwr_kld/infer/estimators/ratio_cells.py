"""Scored cells, and what laws of ``r = P / Π`` say of their scores: see `posterior_ratios`.

Two numbers were tuned. `_PLACE` is the widest place, in ln Π: a law differs little from one end of
it to the other. Halved or doubled, the root mean square error of the population's number is .118 or
.119 for .118, and the cohort's .094 or .095 for .094, in the 24 questions of `drift_shapes`.
`_GONE` is the ratio below which a symbol is gone, all but: .117 or .120; the cohort's stays.
`_LEAST` and `_IMPOSSIBLE` keep logarithms finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.free_law import GRID, SPACING, RatioLaw, directions
from flwr_kld.infer.estimators.groups import Groups, group_cells
from flwr_kld.infer.estimators.noise_window import NoiseWindow
from flwr_kld.infer.estimators.score import Floats, exp, score, score_slope
from flwr_kld.infer.estimators.trend import Trend
from flwr_kld.kernel.law import NoiseTable

if TYPE_CHECKING:
    from flwr_kld.ask.noisy import NoisyCounts

_PLACE = 0.7


_GONE = 0.03


@dataclass(frozen=True, eq=False)
class Summed:
    """What K laws say of a sum of scores, shape [K]; and of G groups of cells, shape [G, K]."""

    value: Floats
    variance: Floats
    # By how much a cell's score follows from the known sum: its covariance with what the cell adds
    # to that sum, in units of `unit`, times `shift`; and `lift` for what laws have in common
    score: Floats
    crossed: Floats
    shift: Floats
    lift: Floats
    # Cells that are read as they are, shape [S]; their scores, and covariances with the sum
    direct: NDArray[np.bool_]
    direct_score: Floats
    direct_crossed: Floats
    unit: Floats  # Of each cell, shape [S]

    def of_cells(self, of: NDArray[np.int64], weight: Floats) -> Floats:
        """Return the mean score of each cell over laws of these weights [K], shape [S]."""
        by_shift = weight * self.shift
        read = (self.score @ weight)[of] + self.unit * (self.crossed @ by_shift)[of]
        direct = weight.sum() * self.direct_score + by_shift.sum() * self.direct_crossed
        scores: Floats = np.where(self.direct, direct, read) + weight @ self.lift
        return scores


@dataclass(frozen=True, eq=False)
class RatioReading:
    """What K laws say, shape [K] but for `count`."""

    of_ratios: Summed  # Σ w φ(r)
    of_counts: Summed  # Σ w φ(h / (N Π))
    evidence: Floats
    gone: Floats  # Fraction of Π whose ratio is about 0 under the law
    count: Floats  # Mean number of records of a cell of each group, shape [G, K]


class RatioCells:
    """The S scored cells, their groups, and what the grid says of each group."""

    def __init__(
        self,
        counts: NoisyCounts,
        scored: NDArray[np.int64],
        trend: Trend,
        level: float,
        theta: float,
        effects: DesignEffects,
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
        self.place_of = _places(groups.log_expected)[groups.bin_of]

        above = np.log(np.maximum(y, 1.0) / self.expected) - log_mean[in_bin]
        finest = np.interp(above, GRID, SPACING)
        by_chance = max(effects.likely, 1.0) * y + noise
        self.direct = (y > 0) & (by_chance < (finest * y) ** 2)
        ratio = np.where(self.direct, y / self.expected, 1.0)
        slope = score_slope(ratio, theta)
        self._count, self._count_variance = y, by_chance
        # φ'' = φ'², and a count of mean N Π r varies by the design effect times that, and noise.
        by_count = slope**2 * self._count_variance / self.expected**2
        self._direct_score = score(ratio, theta) - by_count / 2
        self._crossed, self._score_variance = slope / self.expected * self._count_variance, by_count

        rows, counted = ratio_likelihood(groups, counts.noise, log_mean, effects, theta)
        self.of_trend = rows * _numbers(log_mean[:, None] + GRID, theta)[:, groups.bin_of]
        """The likelihood times `_numbers`, of u about the trend, shape [9, G, U]."""
        apart = (level - log_mean)[groups.bin_of]
        self.rows_of_level = shifted(rows, apart)
        """The likelihood of u about the level, shape [G, U]."""
        self._counted = counted, shifted(counted, apart)
        self._noise, self._theta = noise, theta
        self._numbers_of_level = _numbers(level + GRID, theta)
        columns = trend.design[: len(scored)].T
        design = np.stack([np.bincount(in_bin, column) / size for column in columns], axis=1)
        self._design = design[groups.bin_of]

    def _summed(self, of_cell: Floats, direct: NDArray[np.bool_]) -> Floats:
        """Sum a number over the cells of each group that are not read as they are."""
        sums = np.bincount(self.groups.of, of_cell * ~direct, len(self.groups.size))
        return np.asarray(sums, dtype=np.float64)

    def read(
        self, laws: Sequence[RatioLaw], total: float, by_noise: float, by_chance: float
    ) -> RatioReading:
        """Read the cells by each law; their records are `total`, but for noise and chance."""
        moments = self._moments(laws)
        priors = np.stack([law.weights for law in laws], axis=1)
        gone = priors[:, :, np.log(_GONE) > GRID].sum(axis=2)
        in_place = np.bincount(self.place_of[self.groups.of], self.weight, len(priors))
        of_ratios, evidence = self._of_ratios(laws, moments, total, by_noise + by_chance)
        of_counts, count = self._of_counts(laws, moments[0], total, by_noise)
        return RatioReading(
            of_ratios, of_counts, evidence, in_place @ gone / self.weight.sum(), count
        )

    def _of_ratios(
        self, laws: Sequence[RatioLaw], moments: Floats, total: float, total_variance: float
    ) -> tuple[Summed, Floats]:
        """Sum the scores of ratios, given the sum of expected records; with laws' evidence."""
        w, m, direct = self.weight, self.expected, self.direct
        weights, masses, both = (self._summed(x, direct) for x in (w, m, w * m))
        _, f, r, fr, ff, rr, growth, *_ = moments
        crossed = fr - f * r
        # What cells by themselves say of T and S, and their covariance.
        value = weights @ f + (w * self._direct_score)[direct].sum()
        held = masses @ r + self._count[direct].sum()
        across = both @ crossed + (w * self._crossed)[direct].sum()
        variance = self._summed(w**2, direct) @ (ff - f**2)
        variance += (w**2 * self._score_variance)[direct].sum()
        spread = self._summed(m**2, direct) @ (rr - r**2) + self._count_variance[direct].sum()
        covariance = np.array([[variance, across], [across, spread]])
        for k, law in enumerate(laws):
            if law.covariance is not None:
                share = law.weights[self.place_of] / moments[0][:, k, None]
                likelihood = (
                    self.of_trend[:3]
                    if law.trended
                    else self.rows_of_level * self._numbers_of_level[:3, None]
                )
                one, of_f, of_r = (likelihood * share) @ directions()
                by_law = np.stack(
                    [
                        weights @ (of_f - f[:, k, None] * one),
                        masses @ (of_r - r[:, k, None] * one),
                    ]
                )
                covariance[:, :, k] += by_law @ law.covariance @ by_law.T
        trended = np.array([law.trended for law in laws])
        told = self._told(laws, moments)
        by_trend = np.stack(
            [
                (weights[:, None] * told * growth).T @ self._design,
                (masses[:, None] * told * r).T @ self._design,
            ]
        )
        by_trend = np.einsum("ikd,de,jke->ijk", by_trend, self.trend.covariance, by_trend)
        covariance += trended * by_trend

        spread = np.maximum(covariance[1, 1] + total_variance, 1e-9)
        gap = total - held
        shift = gap / spread
        summed = Summed(
            value=value + shift * covariance[0, 1],
            variance=np.maximum(covariance[0, 0] - covariance[0, 1] ** 2 / spread, 0.0),
            score=f,
            crossed=crossed,
            shift=shift,
            lift=shift * (covariance[0, 1] - across) / w.sum(),
            direct=direct,
            direct_score=self._direct_score,
            direct_crossed=self._crossed,
            unit=m,
        )
        evidence = np.array([law.evidence for law in laws])
        return summed, evidence - gap**2 / spread / 2 - np.log(spread) / 2

    def _of_counts(
        self, laws: Sequence[RatioLaw], likelihood: Floats, total: float, total_variance: float
    ) -> tuple[Summed, Floats]:
        """Sum the scores of the counts themselves, given the sum of counts; with the counts."""
        w, y, direct = self.weight, self._count, self.groups.sharp[self.groups.of]
        weights, cells = self._summed(w, direct), self._summed(np.ones_like(w), direct)
        f, h, fh, ff, hh = self._averaged(laws, *self._counted) / likelihood
        crossed = fh - f * h
        ratio = np.where(direct, y / self.expected, 1.0)
        slope = score_slope(ratio, self._theta) / self.expected
        score_, covariance = score(ratio, self._theta), slope * self._noise
        across = weights @ crossed + (w * covariance)[direct].sum()
        variance = self._summed(w**2, direct) @ (ff - f**2)
        variance += (w**2 * slope * covariance)[direct].sum()
        spread = cells @ (hh - h**2) + self._noise * direct.sum() + total_variance
        spread = np.maximum(spread, 1e-9)
        shift = (total - cells @ h - y[direct].sum()) / spread
        summed = Summed(
            value=weights @ f + (w * score_)[direct].sum() + shift * across,
            variance=np.maximum(variance - across**2 / spread, 0.0),
            score=f,
            crossed=crossed,
            shift=shift,
            lift=np.zeros(len(laws)),
            direct=direct,
            direct_score=score_,
            direct_crossed=covariance,
            unit=np.ones_like(w),
        )
        return summed, h

    def _averaged(self, laws: Sequence[RatioLaw], of_trend: Floats, of_level: Floats) -> Floats:
        """Average rows of the grid [..., G, U] over laws, shape [..., G, K]."""
        weights = np.stack([law.weights for law in laws], axis=2)
        trended = np.array([law.trended for law in laws])
        averaged = np.empty((*of_trend.shape[:-1], len(laws)))
        ends = np.searchsorted(self.place_of, np.arange(len(weights) + 1))
        for a, prior in enumerate(weights):
            part = slice(ends[a], ends[a + 1])
            averaged[:, part, trended] = of_trend[:, part] @ prior[:, trended]
            averaged[:, part, ~trended] = of_level[:, part] @ prior[:, ~trended]
        return averaged

    def _moments(self, laws: Sequence[RatioLaw]) -> Floats:
        """Posterior means of `_numbers`, after the likelihood itself, shape [9, G, K]."""
        weights = np.stack([law.weights for law in laws], axis=2)
        trended = np.array([law.trended for law in laws])
        moments = np.empty((len(self.of_trend), len(self.groups.size), len(laws)))
        ends = np.searchsorted(self.place_of, np.arange(len(weights) + 1))
        for a, prior in enumerate(weights):
            part = slice(ends[a], ends[a + 1])
            moments[:, part, trended] = self.of_trend[:, part] @ prior[:, trended]
            of_u = self._numbers_of_level[:, :, None] * prior[:, ~trended]
            moments[:, part, ~trended] = self.rows_of_level[part] @ of_u
        moments[1:] /= moments[0]
        return moments

    def _told(self, laws: Sequence[RatioLaw], moments: Floats) -> Floats:
        """In how far the trend tells a group's u, and not its count, shape [G, K]."""
        left = np.maximum(moments[8] - moments[7] ** 2, 0.0)
        prior = _variance(np.stack([law.weights for law in laws], axis=1))[self.place_of]
        return np.where(prior > 0, np.minimum(left / np.where(prior > 0, prior, 1.0), 1.0), 1.0)


def _numbers(log_ratio: Floats, theta: float) -> Floats:
    """Return what is averaged: 1, φ, r, φ r, φ², r², dφ/d ln r, u and u², shape [9, ..., U]."""
    r = np.exp(log_ratio)
    if theta:
        r[..., 0] = 0.0
    f, u = score(r, theta), np.broadcast_to(GRID, r.shape)
    return np.stack([np.ones_like(r), f, r, f * r, f**2, r**2, score_slope(r, theta) * r, u, u**2])


def _variance(share: Floats) -> Floats:
    """Variance of u under laws, shape [...], from [..., U]."""
    mean = share @ GRID
    variance: Floats = np.maximum(share @ GRID**2 - mean**2, 0.0)
    return variance


def _places(log_expected: Floats) -> NDArray[np.int64]:
    """Return which places bins of like mass share, ascending, from ascending `log_expected`."""
    place = ((log_expected - log_expected[0]) / _PLACE).astype(np.int64)
    return np.unique(place, return_inverse=True)[1]


_LEAST = 1e-3
"""Above 1, of a design effect: a Poisson law's, as good as."""
_IMPOSSIBLE = 1e-290
"""Likelihood of a count that no ratio explains: it tells nothing."""


def ratio_likelihood(
    groups: Groups, noise: NoiseTable, log_mean: Floats, effects: DesignEffects, theta: float
) -> tuple[Floats, Floats]:
    """Likelihood of each group under each ratio of the grid, [G, U], each row scaled to max 1.

    And the same times numbers of the count h: φ, h, φ h, φ² and h², shape [5, G, U], where a count
    is not read as it is.
    """
    # Shapes: log_mean [B].
    lump = effects.lump
    effect = max(effects.likely, 1.0) / lump
    window = NoiseWindow(groups, noise)
    mean = np.exp((groups.log_expected + log_mean)[:, None] + GRID)
    mean[:, 0] = 1e-290  # r = 0
    rows = np.zeros((len(groups.size), len(GRID)))
    counted = np.zeros((5, *rows.shape))
    ends = np.searchsorted(groups.bin_of[window.at], np.arange(len(mean) + 1))
    for b in np.flatnonzero(np.diff(ends)):
        at, chance = window.at[ends[b] : ends[b + 1]], window.chance[ends[b] : ends[b + 1]]
        possible = np.flatnonzero(chance.any(axis=0))
        some = slice(possible.min(initial=len(window.counts)), possible.max(initial=-1) + 1)
        h, chance = window.counts[some], chance[:, None, some]
        law = exp(_log_pmf(h[:, None] / lump, mean[b] / lump, effect))
        law += _IMPOSSIBLE
        # theta = 0 has no finite score at no records: half a record stands for it.
        scored = h if theta else np.maximum(h, 0.5)
        f = score(scored / math.exp(groups.log_expected[b]), theta)
        numbers = np.stack([np.ones_like(h), f, h, f * h, f**2, h**2])
        likelihood = ((chance * numbers).reshape(-1, len(h)) @ law).reshape(len(at), 6, -1)
        rows[at], counted[:, at] = likelihood[:, 0], likelihood[:, 1:].swapaxes(0, 1)
    sharp = np.flatnonzero(groups.sharp)
    value, expected = groups.value[sharp, None] / lump, mean[groups.bin_of[sharp]] / lump
    likely = _log_pmf(value, expected, effect)
    rows[sharp] = exp(likely - likely.max(axis=1, keepdims=True, initial=-np.inf))
    rows[sharp] += _IMPOSSIBLE
    highest = rows.max(axis=1, keepdims=True)
    return rows / highest, counted / highest


def _log_pmf(h: Floats, mean: Floats, design_effect: float) -> Floats:
    """Log pmf of the negative binomial of this mean and ``design_effect`` times this variance."""
    over = design_effect - 1
    if over < _LEAST:
        return np.asarray(h * np.log(mean) - mean - scipy.special.gammaln(h + 1))
    shape = mean / over
    log_pmf = scipy.special.gammaln(h + shape)
    log_pmf -= scipy.special.gammaln(shape)
    log_pmf -= scipy.special.gammaln(h + 1)
    log_pmf += h * math.log(over / (1 + over)) - shape * math.log1p(over)
    return log_pmf


def shifted(rows: Floats, by: Floats) -> Floats:
    """Read likelihoods [..., G, U] at ``u + by``, between two points of the grid; r = 0 stays."""
    place = np.interp(GRID + by[:, None], GRID, np.arange(len(GRID)))
    place = np.maximum(place, 1.0)
    place[:, 0] = 0.0
    low = np.minimum(place.astype(np.int64), len(GRID) - 2)
    above, at = place - low, low + len(GRID) * np.arange(len(by))[:, None]
    rows = rows.reshape(*rows.shape[:-2], -1)
    read: Floats = (1 - above) * rows.take(at, axis=-1) + above * rows.take(at + 1, axis=-1)
    return read
