"""Tests of D_θ by all counts of a cohort, where records of these very clients are what is drawn.

Two kinds share the error. Drifts of every shape: a statistic reads the ratio r = P / Π off each
cell's count and adds up what D_θ adds up. What its cumulants can be at most if D_θ is at most τ is
bounded over drifts of every shape at once: cell by cell, with multipliers for D_θ and for the total
mass, within intervals that the counts leave for each cell (Berger and Boos 1994). Sampling and
noise enter by their own laws, and no shape is estimated. Drifts along the order of the symbols, up,
down, outwards or inwards: D_θ is convex, so it lies above its tangent at a law that has drifted so;
the tangent is the mean of a score of records. Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, ndtr, ndtri, ndtri_exp, xlogy

from flwr_kld.inference.estimators.score import THETA, Floats, check_theta
from flwr_kld.inference.fraction_interval import fraction_intervals, records_between
from flwr_kld.kernel.law import RATIO_BITS, TOTAL, NoiseTable
from flwr_kld.search import edge, root

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts

_APART = 0.1
"""Part of the error probability that the intervals of cells may use up."""
_FLOORS = (0.12, 0.4)
"""Ratios below which a reading falls no further: a low one sees what vanishes; without a higher one
no test of many cells could tell chance from that."""
_ORDERED = (1 / 6, 1 / 6, 1 / 12, 1 / 12)
"""Parts of the error for drifts along the order of the symbols: up, down, outwards, inwards. Both
statistics that read ratios share the rest."""
_AT_LEAST = 0.01
"""Records' worth of D_θ at whose law a tangent is laid, at least."""
_FARTHEST = 50.0
"""Of a drift, in standard deviations of its direction."""
_SURE = 2.0
"""Standard errors by which the variance of a score may be larger than it is counted."""
_FINE = np.arange(0.5, 8.0, 0.5)
"""Slopes of bets on a score, in standard errors of its sum."""
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
_AT_ONCE = 2**18
"""Values that are held against each other at once, about."""
_FEW, _TAILED = 32.0, 0.12
"""Records that a cell surely has, at least, and excess kurtosis that noise brings to its count, at
most, where the law of that count is taken for what its first four cumulants say."""
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

    # Of each bet on a statistic, shape [bets]: ln of what it wins if D_θ is 0; what each nat that
    # D_θ may have takes off that; and one over its statistic's part of the error. For the right
    # D_θ, the wealth has a mean of at most 1.
    won: Floats
    price: Floats
    among: Floats
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
        return min(self.error + 2 * float(ndtr(-self.quantile(threshold))), 1.0)

    def quantile(self, threshold: float) -> float:
        """Return the standard normal quantile that the counts are worth to both sides, >= 0."""
        worth = np.sqrt(2 * np.maximum(self.won - self.price * threshold, 0.0))
        log_p = float((log_ndtr(-worth) + np.log(self.among)).min())
        return max(-float(ndtri_exp(min(log_p - math.log(2), 0.0))), 0.0)

    def needed(self, level: float) -> float:
        """Return the quantile at which a test is sure with this confidence."""
        return -float(ndtri(min((1 - level - self.error) / 2, 0.5)))

    def at_least(self, level: float) -> float:
        """Return the largest D_θ that is excluded at a confidence level, in nats."""
        needed = -ndtri(np.minimum((1 - level - self.error) / self.among, 0.5))
        return float(((self.won - needed**2 / 2) / self.price).max())


def whole_cohort(
    counts: NoisyCounts, *, theta: float = THETA, threshold: float, error: float
) -> WholeCohort:
    """Read a cohort's counts, for tests near a threshold that err with about this probability."""
    cells = _Cells.of(counts, check_theta(theta), _APART * error)
    tangents = _tangents(counts, cells.records + cells.unknown, theta, threshold)
    shared = [(part, tangent.bets()) for part, tangent in zip(_ORDERED, tangents, strict=False)]
    rest = (1 - sum(part for part, _ in shared)) / len(_FLOORS)
    shared += [(rest, cells.bets(floor, threshold)) for floor in _FLOORS]
    won, price = np.concatenate([bets for _, bets in shared], axis=1)
    among = np.concatenate([np.full(bets.shape[1], 1 / part) for part, bets in shared])
    return WholeCohort(won, price, among, _APART * error)


@dataclass(frozen=True, eq=False)
class _Tangent:
    """A score of records whose mean is at most D_θ, and equal to it at a law that has drifted."""

    scores: Floats  # Shape [cells]
    counts: Floats  # Shape [cells]
    records: float  # N, at most
    noise: NoiseTable

    def bets(self) -> Floats:
        """Return what bets on the score win, and what a nat of D_θ takes off; shape [2, bets]."""
        # Bennett's inequality; of the noise, whose cumulants of even order are not negative, a
        # smaller multiple costs at most its square's part of a larger one (Gaussian, Laplace and
        # what lies between).
        s, share = self.scores, np.maximum(self.counts, 0)
        share /= max(float(share.sum()), 1.0)
        mean = float(s @ share)
        variance = max(float((s - mean) ** 2 @ share), 0.0)
        noise, squares = self.noise.variance, float(s @ s)
        off = ((s - mean) ** 4 @ share) / self.records + noise * float(
            (s**4).sum()
        ) / self.records**2
        variance += _SURE * math.sqrt(float(off)) + 1e-12 * squares
        farthest = max(float(s.max()) - mean, 1e-12)
        deviation = math.sqrt(self.records * variance + noise * squares)
        top = float(np.abs(s).max())
        slopes = _FINE / deviation
        x = slopes * farthest
        cost = self.records * variance / farthest**2 * (np.expm1(x) - x)
        most = np.maximum(log_moment(self.noise, slopes * top) / (slopes * top) ** 2, noise / 2)
        cost += most * slopes**2 * squares
        return np.stack([slopes * float(s @ self.counts) - cost, slopes * self.records])


def _tangents(
    counts: NoisyCounts, most: float, theta: float, threshold: float
) -> Iterator[_Tangent]:
    """Yield tangents of D_θ at laws that have drifted along the order of the symbols."""
    plan = counts.plan
    mass, inside = plan.mass, ~plan.outside
    if np.count_nonzero(inside) < 3 or theta == 0:
        return
    p = plan.reference.probabilities
    middle = np.cumsum(p) - p / 2
    place = np.bincount(plan.cell_of, p * middle, plan.cells)[inside] / mass[inside]
    nats = max(threshold, _AT_LEAST / counts.records)
    along = np.sqrt(3) * (2 * place - 1)
    across = np.sqrt(5) * (6 * place**2 - 6 * place + 1)
    for direction in (along, -along, across, -across):
        drifted = _at(mass[inside], direction, nats, theta)
        mixed = (1 - theta) * drifted / mass[inside] + theta
        slopes = (1 - theta) / mixed
        scores = np.zeros(plan.cells)  # outside, where a tangent's would be larger, and very noisy
        scores[inside] = nats + float(slopes @ drifted) - slopes
        yield _Tangent(scores, counts.values.astype(np.float64), most, counts.noise)


def _at(mass: Floats, direction: Floats, nats: float, theta: float) -> Floats:
    """Return the law that has drifted in a direction by so many nats, or as far as it can."""

    def law(amount: float) -> Floats:
        exponent = amount * direction
        weight = mass * np.exp(exponent - exponent.max())
        return np.asarray(weight / weight.sum())

    def excess(amount: float) -> float:
        mixed = (1 - theta) * law(amount) / mass + theta
        return -float(mass @ np.log(mixed)) - nats

    far = _FARTHEST if excess(_FARTHEST) < 0 else root(excess, 0.0, _FARTHEST, within=1e-9)
    return law(far)


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
        tails = np.abs(_fourth(noise)) / (low[inside] + noise.variance) ** 2
        precise = (low[inside] > _FEW) & (tails <= _TAILED)
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

    def bets(self, floor: float, threshold: float) -> Floats:
        """Return what bets on a statistic win, and what a nat of D_θ takes off; [2, bets]."""
        statistic = float(self._read(self.counts, floor, slice(None)).sum())
        statistic += (1 - self.theta) * self.outside
        scores = [self._read(tried.values, floor, tried.cells) for tried in self.tried]
        by_chance = self._kept**2 * (1 + self.noise.variance / self.expected)
        drifted = 2 * max(threshold * self.records, statistic)
        deviation = math.sqrt(float(by_chance @ by_chance) / 2 + drifted)
        off = self.unknown / self.records
        slopes = np.unique(np.minimum(_SLOPES / deviation, self._steepest))
        values = len(slopes) * len(_PRICES) * sum(tried.cost.size for tried in self.tried)
        found = []
        for some in np.array_split(slopes, min(1 + values // _AT_ONCE, len(slopes))):
            moments = [
                np.stack([tried.log_moments(slope * score) for slope in some.tolist()])
                for tried, score in zip(self.tried, scores, strict=True)
            ]
            prices = some[:, None] * _PRICES
            most = self._most(moments, some[:, None], prices)
            most += prices * self.records * off * (self.theta + off)
            won = some[:, None] * statistic - most
            found.append([won.ravel(), prices.ravel() * self.records * (1 + off)])
        return np.concatenate(found, axis=1)

    @cached_property
    def _steepest(self) -> float:
        """Largest slope at which the noise outside costs little enough."""
        return edge(
            lambda x: bool(self._by_noise(np.array(x)) <= _NOISE_COST),
            0.0, _STEEPEST, within=0.01,
        )  # fmt: skip

    @cached_property
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

    def _by_noise(self, slopes: Floats) -> Floats:
        """Return ``ln E exp(slope · noise)`` of all that is counted outside; of any shape."""
        moments = log_moment(self.noise, (1 - self.theta) * slopes)
        return np.multiply(self.cells_outside, moments, out=moments, where=np.isfinite(moments))

    def _most(self, moments: list[Floats], slopes: Floats, prices: Floats) -> Floats:
        """Bound ``ln E exp(slope · statistic) - price · N D_θ`` for laws of every shape.

        Shapes: moments [slopes, cells, ratios], slopes [slopes, 1], prices [slopes, prices].
        """
        # Means add up to N: whatever multiplier of that is taken, the bound holds. It is convex.
        a, low, high, balance = 1 - self.theta, -prices, prices, 0 * prices
        best = np.full_like(prices, math.inf)
        for each_try in range(_BALANCING + 1):
            each = np.expm1(slopes * a) - prices * a - balance
            moved = np.where(each < 0, self.fewest_outside, self.most_outside)
            total = each * moved + np.abs(balance) * self.unknown
            for tried, moment in zip(self.tried, moments, strict=True):
                taken = prices[..., None, None] * tried.cost
                taken += balance[..., None, None] * tried.moved
                highest, there = _highest(moment[:, None] - taken, tried.moved)
                total, moved = total + highest, moved + there
            best = np.minimum(best, total)
            low, high = np.where(moved > 0, balance, low), np.where(moved > 0, high, balance)
            first = np.copysign(_FIRST * prices, moved)
            balance = (low + high) / 2 if each_try else first
        return best + self._by_noise(slopes)


def _score(ratio: Floats, theta: float) -> Floats:
    """D_θ's score of a ratio, with its tangent at 1 taken off: 0 there, and positive elsewhere."""
    with np.errstate(divide="ignore"):
        return np.asarray((1 - theta) * (ratio - 1) - np.log((1 - theta) * ratio + theta))


def _highest(value: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Sum of each cell's maximum, between ratios by a parabola, and of what is moved there."""
    # Shapes: value [..., cells, ratios], moved [cells, ratios]. The last ratio is out of order.
    shape, ratios = value.shape[:-1], value.shape[-1]
    flat, last = value.ravel(), ratios - 1
    at = np.argmax(value[..., :last], axis=-1).ravel()
    row = np.arange(0, len(flat), ratios)
    middle = row + np.minimum(np.maximum(at, 1), last - 2)
    left, top, right = flat[middle - 1], flat[middle], flat[middle + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        slope, bend = (right - left) / 2, left - 2 * top + right
        vertex = top - slope**2 / (2 * bend)
    at = row + np.where(flat[row + last] > flat[row + at], last, at)
    best = flat[at]
    inside = np.isfinite(bend) & (bend < 0) & (np.abs(slope) <= -bend)
    best = np.where(inside, np.maximum(best, vertex), best)
    there = moved.ravel()[at % moved.size]
    return best.reshape(shape).sum(axis=-1), there.reshape(shape).sum(axis=-1)


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


def log_moment(noise: NoiseTable, slopes: Floats) -> Floats:
    """``ln E exp(slope · Z)`` for slopes of any shape, inf where it diverges; the tail included."""
    ratio, slope = noise.tail_ratio / 2.0**RATIO_BITS, np.abs(slopes)
    exists = (slope * noise.reach <= 500) & (ratio * np.exp(np.minimum(slope, 500)) < 1)
    slope = np.where(exists, slope, 0.0)
    side = slice(noise.reach + 1, None)
    # With its inverse, several times as fast as cosh.
    grown = np.exp(slope[..., None] * noise.support[side])
    moment = noise.probabilities[noise.reach] + (grown + 1 / grown) @ noise.probabilities[side]
    edge, first = noise.tail / TOTAL * (1 - ratio) / 2, slope * (noise.reach + 1)
    for sign in (1, -1):
        moment += edge * np.exp(sign * first) / (1 - ratio * np.exp(sign * slope))
    return np.where(exists, np.log(moment), math.inf)
