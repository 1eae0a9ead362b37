"""Tests of D_θ by all counts of a cohort, where records of these very clients are what is drawn.

A statistic reads the ratio r = P / Π off each cell's count and adds up what D_θ adds up. What its
cumulants can be at most if D_θ is at most τ is bounded over drifts of every shape at once: cell by
cell, with multipliers for D_θ and for the total mass, within intervals that the counts leave for
each cell (Berger and Boos 1994). Sampling and noise enter by their own laws, and no shape is
estimated. Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri, xlogy

from flwr_kld.inference.bets import log_moment
from flwr_kld.inference.estimators.score import Floats, check_theta
from flwr_kld.inference.fraction_interval import fraction_intervals, records_between
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.search import edge

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts

_APART = 0.1
"""Part of the error probability that the intervals of cells may use up."""
_FLOORS = (0.12, 0.4)
"""Ratios below which a reading falls no further: a low one sees what vanishes; without a higher one
no test of many cells could tell chance from that. Each statistic has half of the error."""
_SHRUNK = 2.0
"""Variance of r beyond which what sampling and noise hide of a ratio is not read as a drift."""
_SLOPES = np.array([0.3, 0.7, 1.2, 1.8, 2.6, 3.6, 5.0, 7.0])
"""In standard errors of the statistic."""
_STEEPEST, _NOISE_COST = 0.85, 5.0
"""Largest slope, and nats that the noise outside the reference may cost at it."""
_PRICES = 1 + np.array([0.01, 0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.6, 1.0, 2.0, 8.0, 200.0])
"""Of D_θ, in slopes."""
_BALANCING, _FIRST = 5, 0.1
"""Tries of the multiplier of the total mass, and the first one, in prices."""
_FEW, _NOISY = 32.0, 4.0
"""Records that a cell surely has, and times the variance of the noise, from which the law of its
count is taken for what its first four cumulants say."""
_RATIOS, _APART_BY = 17, 0.5
"""Ratios that are tried in a cell, and standard deviations between them where there are few."""
_NODES = np.arange(-10.0, 10.25, 0.5)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
_BEYOND, _POINTS = 1e-12, 1024
"""Probability of the noise on one side that is put on the outermost values, and values that stand
for a count."""


@dataclass(frozen=True, eq=False)
class WholeCohort:
    """Whether D_θ is at most τ, for every τ. Public."""

    # Of each bet on a statistic, shape [bets]: ln of what it wins if D_θ is 0, and what each nat
    # that D_θ may have takes off that. For the right D_θ, the wealth has a mean of at most 1.
    won: Floats
    price: Floats
    error: float  # Probability that an interval of a cell misses its ratio

    def log_evidence(self, threshold: float) -> float:
        """Return ln e, where ``E e <= 1`` if D_θ is at most the threshold: of its p-value."""
        # e is the mean of ``k p^(k - 1)`` over k in [0, 1] (Vovk and Wang 2021).
        p = self.p_value(threshold)
        if p == 1:
            return -math.log(2)
        return math.log((1 - p + p * math.log(p)) / (p * math.log(p) ** 2))

    def p_value(self, threshold: float) -> float:
        """Return how probable such counts are, at most, if D_θ is at most the threshold."""
        each = float(ndtr(-self.quantile(threshold)))
        return min(self.error + len(_FLOORS) * each, 1.0)

    def quantile(self, threshold: float) -> float:
        """Return the standard normal quantile that the better statistic is worth, at least 0."""
        return math.sqrt(2 * max(float((self.won - self.price * threshold).max()), 0.0))

    def needed(self, level: float) -> float:
        """Return the quantile at which a test is sure with this confidence."""
        return -float(ndtri(min((1 - level - self.error) / len(_FLOORS), 0.5)))

    def at_least(self, level: float) -> float:
        """Return the largest D_θ that is excluded at a confidence level, in nats."""
        return float(((self.won - self.needed(level) ** 2 / 2) / self.price).max())


def whole_cohort(
    counts: NoisyCounts, *, theta: float, threshold: float, error: float
) -> WholeCohort:
    """Read a cohort's counts, for tests near a threshold that err with about this probability."""
    cells = _Cells.of(counts, check_theta(theta), _APART * error)
    bets = [bet for floor in _FLOORS for bet in cells.bets(floor, threshold)]
    won, price = np.concatenate(bets, axis=1)
    return WholeCohort(won, price, _APART * error)


@dataclass(frozen=True, eq=False)
class _Tried:
    """Means of counts that are tried in some cells, and what they cost."""

    cells: NDArray[np.int64]
    expected: Floats  # Shape [cells]: N Π
    # Shape [cells, ratios]: N Π times D_θ's score; inf where a cell cannot have that mean
    cost: Floats
    moved: Floats  # Shape [cells, ratios]: the mean less N Π
    # Values that a count may have, shape [cells or 1, values], or [cells, ratios, values]; and
    # their probabilities under each mean
    values: Floats
    law: Floats  # Shape [ratios, values], or [values]
    unmoved: Floats | None  # Shape [cells, values]: the law at the mean N Π

    def log_moments(self, scores: Floats) -> Floats:
        """``ln E exp(score)`` under each mean, shape [cells, ratios], of scores of all values."""
        top = scores.max(axis=-1, keepdims=True)
        grown = np.exp(scores - top)
        mean = grown @ self.law.T
        if self.unmoved is not None:
            last = (grown * self.unmoved).sum(axis=-1, keepdims=True)
            mean = np.concatenate([mean, last], axis=-1)
        top = top[..., 0] if scores.ndim == 3 else top
        return np.asarray(np.log(np.maximum(mean, np.finfo(float).tiny)) + top)


@dataclass(frozen=True, eq=False)
class _Cells:
    """A cohort's counts, of each cell inside the reference and of all outside."""

    counts: Floats  # Shape [cells]
    expected: Floats  # Shape [cells]: N Π
    tried: tuple[_Tried, ...]
    outside: float  # Counted outside the reference, in so many cells
    cells_outside: int
    fewest_outside: float  # The mean of that, at least and at most
    most_outside: float
    records: float  # N, and by how many the true number may differ
    unknown: float
    noise: NoiseTable
    theta: float

    @classmethod
    def of(cls, noisy: NoisyCounts, theta: float, error: float) -> _Cells:
        """Read counts; with this probability, the mean of a cell is not where it is looked for."""
        fewest, most, left = records_between(noisy, error)
        low, high = fraction_intervals(noisy, level=1 - left, design_effect=1.0)
        low, high = fewest * low, most * high
        inside, noise = ~noisy.plan.outside, noisy.noise
        precise = low[inside] > max(_FEW, _NOISY * noise.variance)
        expected = noisy.records * noisy.plan.mass[inside]
        tried = tuple(
            how(which, expected[which], low[inside][which], high[inside][which], noise, theta)
            for how, some in ((_precise, precise), (_few, ~precise))
            if len(which := np.flatnonzero(some))
        )
        y = noisy.values.astype(np.float64)
        return cls(
            counts=y[inside],
            expected=expected,
            tried=tried,
            outside=float(y[~inside].sum()),
            cells_outside=int(np.count_nonzero(~inside)),
            fewest_outside=float(low[~inside].sum()),
            most_outside=float(high[~inside].sum()),
            records=noisy.records,
            unknown=max(most - noisy.records, noisy.records - fewest),
            noise=noise,
            theta=theta,
        )

    def bets(self, floor: float, threshold: float) -> Iterator[Floats]:
        """Yield what some bets on a statistic win, and what a nat of D_θ takes off that.

        Shape [2, bets].
        """
        statistic = float(self._read(self.counts, floor, slice(None)).sum())
        statistic += (1 - self.theta) * self.outside
        scores = [self._read(tried.values, floor, tried.cells) for tried in self.tried]
        by_chance = self._kept**2 * (1 + self.noise.variance / self.expected)
        drifted = 2 * max(threshold * self.records, statistic)
        deviation = math.sqrt(float(by_chance @ by_chance) / 2 + drifted)
        steepest = edge(lambda x: self._by_noise(x) <= _NOISE_COST, 0.0, _STEEPEST, within=0.01)
        off = self.unknown / self.records
        for slope in np.unique(np.minimum(_SLOPES / deviation, steepest)).tolist():
            moments = [
                tried.log_moments(slope * score)
                for tried, score in zip(self.tried, scores, strict=True)
            ]
            prices = slope * _PRICES
            most = self._most(moments, slope, prices)
            most += prices * self.records * off * (self.theta + off)
            yield np.stack([slope * statistic - most, prices * self.records * (1 + off)])

    @property
    def _kept(self) -> Floats:
        """How far ratios are shrunk towards 1, shape [cells]."""
        chance = (1 + self.noise.variance / self.expected) / self.expected
        return np.asarray(1 / (1 + chance / _SHRUNK))

    def _read(self, counts: Floats, floor: float, which: NDArray[np.int64] | slice) -> Floats:
        """Score counts of some cells, shape [cells, ...], in nats times N."""
        shape = (-1, *[1] * (counts.ndim - 1))
        e, kept = self.expected[which].reshape(shape), self._kept[which].reshape(shape)
        ratio = 1 + kept * (counts / e - 1)
        return np.asarray(e * _score(np.maximum(ratio, floor), self.theta))

    def _by_noise(self, slope: float) -> float:
        """Return ``ln E exp(slope · noise)`` of all that is counted outside."""
        return self.cells_outside * log_moment(self.noise, (1 - self.theta) * slope)

    def _most(self, moments: list[Floats], slope: float, prices: Floats) -> Floats:
        """Bound ``ln E exp(slope · statistic) - price · N D_θ`` for laws of every shape.

        Shape [prices].
        """
        # Means add up to N: whatever multiplier of that is taken, the bound holds. It is convex.
        a, low, high, balance = 1 - self.theta, -prices, prices, 0 * prices
        best = np.full_like(prices, math.inf)
        for each_try in range(_BALANCING + 1):
            each = math.expm1(slope * a) - prices * a - balance
            moved = np.where(each < 0, self.fewest_outside, self.most_outside)
            total = each * moved + np.abs(balance) * self.unknown
            for tried, moment in zip(self.tried, moments, strict=True):
                taken = prices[:, None, None] * tried.cost + balance[:, None, None] * tried.moved
                highest, there = _highest(moment - taken, tried.moved)
                total, moved = total + highest, moved + there
            best = np.minimum(best, total)
            low, high = np.where(moved > 0, balance, low), np.where(moved > 0, high, balance)
            first = np.copysign(_FIRST * prices, moved)
            balance = (low + high) / 2 if each_try else first
        return best + self._by_noise(slope)


def _score(ratio: Floats, theta: float) -> Floats:
    """D_θ's score of a ratio, with its tangent at 1 taken off: 0 there, and positive elsewhere."""
    with np.errstate(divide="ignore"):
        return np.asarray((1 - theta) * (ratio - 1) - np.log((1 - theta) * ratio + theta))


def _highest(value: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Sum of each cell's maximum, between ratios by a parabola, and of what is moved there."""
    # Shapes: value [prices, cells, ratios], moved [cells, ratios].
    at = np.argmax(value, axis=2)[..., None]
    best = np.take_along_axis(value, at, axis=2)[..., 0]
    middle = np.clip(np.argmax(value[..., :-1], axis=2), 1, value.shape[2] - 3)[..., None]
    left, top, right = (np.take_along_axis(value, middle + k, axis=2)[..., 0] for k in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        slope, bend = (right - left) / 2, left - 2 * top + right
        vertex = top - slope**2 / (2 * bend)
    inside = np.isfinite(bend) & (bend < 0) & (np.abs(slope) <= -bend)
    best = np.where(inside, np.maximum(best, vertex), best)
    there = np.take_along_axis(moved[None], at, axis=2)[..., 0]
    return np.asarray(best.sum(axis=1)), np.asarray(there.sum(axis=1))


def _precise(
    cells: NDArray[np.int64], expected: Floats, low: Floats, high: Floats, noise: NoiseTable,
    theta: float,
) -> _Tried:  # fmt: skip
    """Try means of cells whose counts have about the law that their first four cumulants say."""
    variance, fourth = noise.variance, _fourth(noise)
    ends = np.sqrt(low + variance)[:, None], np.sqrt(high + variance)[:, None]
    means = (ends[0] + (ends[1] - ends[0]) * np.linspace(0, 1, _RATIOS)) ** 2 - variance
    means = np.concatenate([means, np.clip(expected, low, high)[:, None]], axis=1)
    spread = means + variance
    skew, tails, x = (
        (means / spread**1.5)[..., None],
        ((means + fourth) / spread**2)[..., None],
        _NODES,
    )
    shape = (
        x + skew * (x**2 - 1) / 6 + tails * (x**3 - 3 * x) / 24 - skew**2 * (2 * x**3 - 5 * x) / 36
    )
    values = means[..., None] + np.sqrt(spread)[..., None] * shape
    e = expected[:, None]
    return _Tried(cells, expected, e * _score(means / e, theta), means - e, values, _WEIGHTS, None)


def _few(
    cells: NDArray[np.int64], expected: Floats, low: Floats, high: Floats, noise: NoiseTable,
    theta: float,
) -> _Tried:  # fmt: skip
    """Try means of cells whose counts have the exact law of a Poisson variable and noise."""
    top = 2.0 ** math.ceil(math.log2(max(high.max(), 8.0)))
    means, values, law = _lattice(noise, top)
    before, after = np.append(-1.0, means[:-1]), np.append(means[1:], np.inf)
    impossible = (after < low[:, None]) | (before > high[:, None])
    e = expected[:, None]
    cost = e * _score(means / e, theta)
    cost[impossible] = np.inf
    outside = (expected < low) | (expected > high)
    cost = np.concatenate([cost, np.where(outside, np.inf, 0.0)[:, None]], axis=1)
    moved = np.concatenate([means - e, np.zeros_like(e)], axis=1)
    unmoved = _laws(noise, np.minimum(expected, top), top)
    return _Tried(cells, expected, cost, moved, values[None], law, unmoved)


@lru_cache(maxsize=16)
def _fourth(noise: NoiseTable) -> float:
    """Fourth cumulant."""
    return float(noise.probabilities @ noise.support**4.0) - 3 * noise.variance**2


@lru_cache(maxsize=16)
def _lattice(noise: NoiseTable, top: float) -> tuple[Floats, Floats, Floats]:
    """Means up to a top, values of a count, and their probabilities, shape [means, values]."""
    ends = math.sqrt(noise.variance), math.sqrt(top + noise.variance)
    means = np.arange(ends[0], ends[1] + _APART_BY / 2, _APART_BY / 2) ** 2 - noise.variance
    means[0] = 0.0
    _, values, block = _blocks(noise, top)
    return means, np.bincount(block, values) / np.bincount(block), _laws(noise, means, top)


def _laws(noise: NoiseTable, means: Floats, top: float) -> Floats:
    """Law of a Poisson variable and noise, over blocks of values, shape [means, values]."""
    reach, values, block = _blocks(noise, top)
    k = np.arange(len(values) - 2 * reach)
    poisson = np.exp(xlogy(k, means[:, None]) - means[:, None] - gammaln(k + 1))
    kept = noise.probabilities[noise.reach - reach : noise.reach + reach + 1].copy()
    kept[[0, -1]] += (1 - kept.sum()) / 2
    size = 1 << (len(values) - 1).bit_length()
    law = np.fft.irfft(np.fft.rfft(poisson, size) * np.fft.rfft(kept, size), size)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    return np.asarray(np.add.reduceat(np.maximum(law[:, : len(values)], 0), starts, axis=1))


def _blocks(noise: NoiseTable, top: float) -> tuple[int, Floats, NDArray[np.int64]]:
    """How far noise reaches, values that a count may have, and the block that each is in."""
    reach = int(np.searchsorted(np.cumsum(noise.probabilities), 1 - _BEYOND)) - noise.reach
    reach = min(max(reach, 0), noise.reach)
    values = np.arange(-reach, int(top + 12 * math.sqrt(top) + 40) + reach + 1, dtype=np.float64)
    return reach, values, np.arange(len(values)) // -(-len(values) // _POINTS)
