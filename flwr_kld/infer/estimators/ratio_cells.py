"""Scored cells, and what laws of ``r = P / Π`` say of their scores: see `posterior_ratios`.

Two numbers were tuned. `_PLACE` is the widest place, in ln Π: a law differs little from one end of
it to the other. Halved or doubled, the root mean square error of the population's number is .118 or
.119 for .118, and the cohort's .094 or .095 for .094, in the 24 questions of `drift_shapes`.
`_GONE` is the ratio below which a symbol is gone, all but: .117 or .120; the cohort's stays.
`_LEAST` keeps logarithms finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
_AT_ONCE = 32  # Not tuned: groups


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
        self._place = _places(groups.log_expected)
        self.place_of = self._place[groups.bin_of]

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

        self._likelihood = likelihood = CountLikelihood(
            groups, counts.noise, log_mean, effects, theta
        )
        self._after, self._way = _between(level - log_mean)
        own, first = groups.bin_of, len(GRID) * np.arange(len(groups.size))[:, None]
        after, way, flat = self._after[own] + first, self._way[own], likelihood.rows.ravel()
        self.rows = (1 - way) * flat[after] + way * flat[after + 1], likelihood.rows
        """Likelihood of u about the level, and about the trend, shape [G, U]."""
        about = np.full(len(log_mean), level), log_mean
        self._numbers = [_numbers(each[:, None] + GRID, theta) for each in about]
        self._noise, self._theta = noise, theta
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
                by_law = self._by_law(law, weights, masses, moments[:3, :, k])
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

    def _by_law(self, law: RatioLaw, weights: Floats, masses: Floats, moments: Floats) -> Floats:
        """Return what directions of a law's factor add to T and to S, shape [2, R]."""
        likelihood, f, r = moments
        shares = np.stack([weights, weights * f, masses, masses * r]) / likelihood
        inner, numbers = np.zeros((2, len(GRID))), self._numbers[law.trended][1:3]
        for place, own in self._blocks():
            rows = self.rows[law.trended][own]
            told = shares[::2, None, own] @ (numbers[:, self.groups.bin_of[own]] * rows)
            inner += (told[:, 0] - shares[1::2, own] @ rows) * law.weights[place]
        return np.asarray(inner @ directions())

    def _blocks(self) -> Iterator[tuple[int, slice]]:
        """Yield groups in one place, few enough for a processor's cache, and which it is."""
        for place, own in enumerate(_slices(self.place_of)):
            for first in range(own.start, own.stop, _AT_ONCE):
                yield place, slice(first, min(first + _AT_ONCE, own.stop))

    def _of_counts(
        self, laws: Sequence[RatioLaw], likelihood: Floats, total: float, total_variance: float
    ) -> tuple[Summed, Floats]:
        """Sum the scores of the counts themselves, given the sum of counts; with the counts."""
        w, y, direct = self.weight, self._count, self.groups.sharp[self.groups.of]
        weights, cells = self._summed(w, direct), self._summed(np.ones_like(w), direct)
        f, h, fh, ff, hh = self._likelihood.counted(self._about_trend(laws)) / likelihood
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

    def _about_trend(self, laws: Sequence[RatioLaw]) -> Floats:
        """Return the laws in each bin, of u about the trend, shape [B, U, K]."""
        weights = np.stack([law.weights[self._place] for law in laws], axis=2)
        after = self._after + len(GRID) * np.arange(len(weights))[:, None]
        for k, law in enumerate(laws):
            if not law.trended:  # read at the points of the grid around each of its own
                parts = (after, 1 - self._way), (after + 1, self._way)
                each = [
                    np.bincount(at.ravel(), (part * weights[:, :, k]).ravel(), after.size)
                    for at, part in parts
                ]
                weights[:, :, k] = np.reshape(each[0] + each[1], after.shape)
        return weights

    def _moments(self, laws: Sequence[RatioLaw]) -> Floats:
        """Posterior means of `_numbers`, after the likelihood itself, shape [9, G, K]."""
        weights = np.stack([law.weights for law in laws], axis=2)
        trended = np.array([law.trended for law in laws])
        moments = np.empty((9, len(self.groups.size), len(laws)))
        for place, own in self._blocks():
            prior, bins = weights[place], self.groups.bin_of[own]
            of_level = self._numbers[0][:, 0, :, None] * prior[:, ~trended]  # alike in all bins
            moments[:, own, ~trended] = self.rows[0][own] @ of_level
            of_trend = self._numbers[1][:, bins] * self.rows[1][own]
            moments[:, own, trended] = of_trend @ prior[:, trended]
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


class CountLikelihood:
    """What noisy counts say of each group under each ratio of the grid, about the trend."""

    # Shapes: log_mean [B].

    def __init__(
        self, groups: Groups, noise: NoiseTable, log_mean: Floats, effects: DesignEffects,
        theta: float,
    ) -> None:  # fmt: skip
        lump = effects.lump
        effect = max(effects.likely, 1.0) / lump
        window = NoiseWindow(groups, noise)
        mean = np.exp((groups.log_expected + log_mean)[:, None] + GRID)
        mean[:, 0] = 1e-290  # r = 0
        rows = np.zeros((len(groups.size), len(GRID)))
        # theta = 0 has no finite score at no records: half a record stands for it.
        h = window.counts if theta else np.maximum(window.counts, 0.5)
        f = score(h / np.exp(groups.log_expected)[:, None], theta)
        h = np.broadcast_to(window.counts, f.shape)
        numbers = np.stack([f, h, f * h, f**2, h**2])
        self._blurred = list[tuple[int, NDArray[np.int64], Floats, Floats]]()
        """Of each bin, which groups; how likely noise makes each count h, times the numbers that
        are averaged, shape [5 groups, h]; and how likely each ratio makes that h."""
        for b, own in enumerate(_slices(groups.bin_of[window.at], len(mean))):
            at, chance = window.at[own], window.chance[own]
            if not len(at):
                continue
            possible = np.flatnonzero(chance.any(axis=0))
            some = slice(possible.min(initial=len(window.counts)), possible.max(initial=-1) + 1)
            law = exp(_log_pmf(window.counts[some, None] / lump, mean[b] / lump, effect))
            rows[at] = chance[:, some] @ law
            weighed = chance[:, some] * numbers[:, b, None, some]
            self._blurred.append((b, at, weighed.reshape(-1, law.shape[0]), law))
        sharp = np.flatnonzero(groups.sharp)
        value, expected = groups.value[sharp, None] / lump, mean[groups.bin_of[sharp]] / lump
        likely = _log_pmf(value, expected, effect)
        rows[sharp] = exp(likely - likely.max(axis=1, keepdims=True, initial=-np.inf))
        self._highest = rows.max(axis=1, keepdims=True)
        rows /= self._highest
        self.rows: Floats = rows
        """Likelihood of each group under each ratio, shape [G, U], each row scaled to max 1."""

    def counted(self, laws: Floats) -> Floats:
        """Average the likelihood, times φ, h, φ h, φ² and h² of the count h, over laws.

        From laws in each bin, shape [B, U, K], to [5, G, K]; 0 where a count is read as it is.
        """
        found = np.zeros((5, len(self.rows), laws.shape[-1]))
        for b, at, weighed, law in self._blurred:
            found[:, at] = (weighed @ (law @ laws[b])).reshape(5, len(at), -1)
        return np.asarray(found / self._highest)


def _log_pmf(h: Floats, mean: Floats, design_effect: float) -> Floats:
    """Log pmf of the negative binomial of this mean and ``design_effect`` times this variance."""
    over = design_effect - 1
    if over < _LEAST:
        ways = scipy.special.gammaln(h + 1)
        if mean.ndim == 1:  # of each count under each law
            terms = np.stack([np.log(mean), -mean, -np.ones_like(mean)])
            return np.asarray(np.concatenate([h, np.ones_like(h), ways], axis=1) @ terms)
        return np.asarray(h * np.log(mean) - mean - ways)
    shape = mean / over
    log_pmf = scipy.special.gammaln(h + shape)
    log_pmf -= scipy.special.gammaln(shape)
    log_pmf -= scipy.special.gammaln(h + 1)
    log_pmf += h * math.log(over / (1 + over)) - shape * math.log1p(over)
    return log_pmf


def _between(by: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return between which points of the grid ``u + by`` lies, shape [B, U]; r = 0 stays.

    Which is the lower one, and which part of the way to the next one it is.
    """
    place = np.interp(GRID + by[:, None], GRID, np.arange(len(GRID)))
    place = np.maximum(place, 1.0)
    place[:, 0] = 0.0
    after = np.minimum(place.astype(np.int64), len(GRID) - 2)
    return after, place - after


def _slices(ascending: NDArray[np.int64], number: int | None = None) -> list[slice]:
    """Return where each of 0, 1, … stands in ascending numbers."""
    number = int(ascending[-1]) + 1 if number is None else number
    ends = np.searchsorted(ascending, np.arange(number + 1)).tolist()
    return [slice(*pair) for pair in pairwise(ends)]
