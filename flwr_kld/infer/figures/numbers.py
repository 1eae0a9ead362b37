"""Where the values of a column of numbers lie, from the noised counts of its bins.

Records without a value are left out. What is known of the others is how many are in each cell and
the ones before: a ratio F of sums of counts, with a covariance, from which all else follows. A cell
is a bin, in which values are taken to lie evenly, or around the mean that the domain tells of it;
or a grid point, at which values around it are counted so that their mean stays (`table.rounded`).
In the open outer bins all values are at the public mean, else at the edge. An interval of
`Numbers.between` holds however the values lie, and that of a quantile ends at edges or grid points
(Woodruff 1952). Both hold what a test does not reject with the noise that would be in the ratio if
it were true, so that they are wide where noise is a large part of all records (Fieller 1954).

`_CENTRES` values of the mean are tried where the standard deviation is limited: with half or twice
as many, intervals of 50 drawn cohorts are .4443 or .4444 wide for .4444, and all hold. `_MOST`
edges are read of columns that have more: of 800 edges, 100 or 400 make the interval of the median
.226 or .160 wide for .180, in standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.common.search import edge
from flwr_kld.infer.cell_fractions import as_law, in_cells
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.fraction_interval import LEVEL, Floats, noise_of
from flwr_kld.table.binned import Binned
from flwr_kld.table.rounded import RoundedNumbers

Side = Literal["below", "above"]
_WORDS: dict[Side | None, str] = {"below": "< ", "above": "≥ ", None: ""}
SIDES = NormalDist().inv_cdf((1 + LEVEL) / 2)  # Not tuned: the normal law's deviations
_CENTRES = 33
_MOST = 200


@dataclass(frozen=True)
class Figure:
    """A number with its error, by sampling and noise."""

    value: float  # Estimate and standard deviation
    deviation: float
    low: float  # Approximate 95 % interval
    high: float


@dataclass(frozen=True)
class Quantile:
    """One quantile of the clients' values, in the column's unit."""

    level: float  # In (0, 1), such as .5 for the median
    # Estimate, clamped to the outer edges, and 95 % interval (Woodruff 1952), widened to edges
    value: float
    low: float
    high: float
    # ``"below"`` the first edge, ``"above"`` the last one, if the quantile lies there; and if the
    # interval's ends do: then it has none on that side
    beyond: Side | None
    low_beyond: Side | None
    high_beyond: Side | None

    @property
    def interval(self) -> str:
        """The interval in words: ``"< 1 to 2"`` if it reaches below the first edge."""
        low, high = _WORDS[self.low_beyond] + f"{self.low:.4g}", f"{self.high:.4g}"
        return f"{low} to {_WORDS[self.high_beyond]}{high}"


@dataclass(frozen=True)
class Places:
    """Where the values of each cell lie, in ascending order."""

    # Shapes: edges [k], all else [k + 1].

    edges: Floats  # Between cells
    values: Floats  # One value for each
    # Between which two the mean of the values lies that a cell stands for, and between which two
    # each of them does; of outer bins, both are their one value, and the edge
    least: Floats
    most: Floats
    first: Floats
    last: Floats
    # Distance to the grid point before, in the same bin; 0 where there is none
    step: Floats

    @classmethod
    def of_bins(cls, domain: Binned) -> Places:
        """Read them at the edges of bins, or where there are many at some of the edges."""
        at = edges_read(len(domain.edges))
        edges = np.array(domain.edges)[at]
        values = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
        if domain.means is not None and len(at) == len(domain.edges):
            values = np.array(domain.means)
        outer = values[[0, -1]]
        least = np.concatenate([outer[:1], edges[:-1], outer[1:]])
        most = np.concatenate([outer[:1], edges[1:], outer[1:]])
        first = np.concatenate([edges[:1], edges])
        last = np.concatenate([edges, edges[-1:]])
        return cls(edges, values, least, most, first, last, np.zeros(len(values)))

    @classmethod
    def of_points(cls, domain: RoundedNumbers) -> Places:
        """Read them at grid points: edges are halfway between two."""
        values, bins = domain.points, domain.bin_of[: len(domain.points)]
        edges = (values[1:] + values[:-1]) / 2
        together = bins[1:] == bins[:-1]
        step = np.append(0.0, np.where(together, np.diff(values), 0.0))
        after = np.append(step[1:], 0.0)
        first, last = values - step, values + after
        if domain.binned.means is not None:
            values = values.copy()
            values[[0, -1]] = np.array(domain.binned.means)[[0, -1]]
        return cls(edges, values, values, values, first, last, step)

    @property
    def within(self) -> Floats:
        """Where in its bin the mean of a cell's values is, in [0, 1]; 0 in the outer ones."""
        width = self.most - self.least
        return np.divide(self.values - self.least, width, out=np.zeros(len(width)), where=width > 0)

    @property
    def is_grid(self) -> bool:
        """Whether cells are grid points."""
        return bool(self.step.any())

    def rounding(self, numbers: Floats) -> Floats:
        """Return how much coins make a number vary that a record has by its cell, at most.

        Of a record in each cell, for numbers of shape [numbers, cells]: a coin between two of them
        varies by a quarter of their distance's square at most.
        """
        apart = np.diff(numbers, axis=1) ** 2 * (self.step[1:] > 0)
        none = np.zeros((len(numbers), 1))
        return np.maximum(np.hstack([none, apart]), np.hstack([apart, none])) / 4


@dataclass(frozen=True)
class Numbers:
    """The distribution of the values of a column of numbers."""

    # Shapes: below [k], law [cells], cuts [k + 1, cells].

    noisy: NoisyCounts
    places: Places
    below: Floats  # F at the edges, in [0, 1]
    records: float  # Number of those that have a value
    law: Floats  # Fraction of all records in each cell
    cuts: Floats  # Part of each cell that lies below each edge, and that has a value
    present: float  # Fraction of all records that have a value
    effects: DesignEffects  # How alike the records of a client are

    @classmethod
    def from_counts(
        cls, noisy: NoisyCounts, seen: Floats, effects: DesignEffects
    ) -> Numbers | None:
        """Read them; None if the column has no order, or no finite bin.

        Errors are the largest that go with the column's average design effect: records of a client
        may be far more alike in a mean than in a bin.
        """
        # Shapes: seen [cells].
        domain = noisy.plan.reference.domain
        if isinstance(domain, RoundedNumbers):
            places, at = Places.of_points(domain), np.arange(len(domain.points))
        elif isinstance(domain, Binned) and len(domain.edges) > 1:
            places = Places.of_bins(domain)
            at = np.append(edges_read(len(domain.edges)), len(domain.edges))
        else:
            return None
        # Symbols below each edge, and those that are values.
        groups = np.arange(domain.size) <= at[:, None]
        cuts = in_cells(noisy.plan, groups)
        present = max(float(cuts[-1] @ seen), 1 / noisy.records)
        return cls(
            noisy,
            places,
            np.clip(cuts[:-1] @ seen / present, 0, 1),
            noisy.records * present,
            as_law(seen, noisy.plan.mass),
            cuts,
            present,
            effects,
        )

    @property
    def edges(self) -> Floats:
        """Where F is known, [k]."""
        return self.places.edges

    @property
    def values(self) -> Floats:
        """One value for each cell, [k + 1]."""
        return self.places.values

    def sampled(self, centred: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return how much the means of numbers vary by sampling at most, and how skewed that is.

        Numbers are of each bin, less their means, shape [numbers, bins], and of each cell, shape
        [numbers, cells]. The skewness is the third moment over the second: the variance grows by so
        much where the mean does.
        """
        size = np.abs(weights).max(axis=1, initial=0)
        weights = weights / np.where(size > 0, size, 1)[:, None]
        variance = weights**2 @ self.law - (weights @ self.law) ** 2
        third = np.zeros_like(variance)
        np.divide(weights**3 @ self.law, variance, out=third, where=variance > 0)
        lump = self.effects.of_groups(weights, self.law) / (self.records * self.present)
        varies = lump * variance * size**2
        if not self.effects.average:  # coins are all that was drawn
            coins = self._in_cells(self.places.rounding(centred)) @ self.law
            varies = varies + coins / (self.records * self.present)
        return varies, lump * self.present * third * size

    def _in_cells(self, numbers: Floats) -> Floats:
        """Average over each cell numbers that records have by their bins, [numbers, cells]."""
        return np.hstack([-np.diff(numbers), numbers[:, -1:]]) @ self.cuts

    @cached_property
    def _effects_below(self) -> Floats:
        """The largest design effect of `below`, [k]."""
        if self.effects.average <= 1:  # then that of any number
            return np.full(len(self.below), self.effects.average)
        # Whether a record of a cell is below each edge, less how many are
        being_below = self.cuts[:-1] - self.below[:, None] * self.cuts[-1]
        return self.effects.of_groups(being_below, self.law)

    @property
    def largest_over_average(self) -> float:
        """The largest design effect of the mean over the average one of the column, at least 1."""
        if not self.effects.average:
            return 1.0
        values = self.values - self.mean_of(self.values)
        (largest,) = self.effects.of_groups(self._in_cells(values[None]), self.law)
        return float(largest / self.effects.average)

    @property
    def covariance(self) -> tuple[Floats, Floats]:
        """Variance of `below`, [k], and covariance of neighbours, by noise and average sampling."""
        factor = self.effects.average / (self.records * self.present)
        by_law = (factor * of_law for of_law in self._products(self.law))
        own, with_next, with_all = map(np.add, by_law, self._noise_below)
        # A ratio moves like its numerator less itself times its denominator.
        with_all, of_all, below = with_all[:-1], with_all[-1], self.below
        own = own - 2 * below * with_all + below**2 * of_all
        together = with_next - below[1:] * with_all[:-1] - below[:-1] * with_all[1:]
        return own, together + below[1:] * below[:-1] * of_all

    def _products(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Sum products of `cuts` over the cells, with weights: with itself, the next, and the last.

        Shapes [k], [k - 1] and [k + 1].
        """
        cuts, below = self.cuts, self.cuts[:-1]
        own = np.einsum("ec,ec,c->e", below, below, weights)
        with_next = np.einsum("ec,ec,c->e", below[1:], below[:-1], weights)
        return own, with_next, cuts @ (weights * cuts[-1])

    @cached_property
    def _noise_below(self) -> tuple[Floats, Floats, Floats]:
        """Covariances, by noise, of the records below each edge, and of those that have a value.

        As fractions of the latter: of each with itself, the next, and the last, as in `_products`.
        """
        own, with_next, with_all = self._products(np.ones(len(self.law)))
        if self.noisy.total_is_known:  # and with it the sum of all noise
            size = self.cuts.sum(axis=1)
            mean = size / len(self.law)
            own = own - mean[:-1] * size[:-1]
            with_next = with_next - mean[1:-1] * size[:-2]
            with_all = with_all - mean * size[-1]
        scale = self.noisy.noise.variance / self.records**2
        return own * scale, with_next * scale, with_all * scale

    def mean_of(self, values: Floats) -> float:
        """Average over the records a number that each of them has by its bin."""
        return float(values[-1] - np.diff(values) @ self.below)

    def error_of(self, values: Floats) -> float:
        """Return the standard deviation of `mean_of`."""
        _, (noise,), (sampled,), _ = self._errors(values[None])
        return math.sqrt(max(float(sampled), 0.0) + float(noise @ noise))

    def _errors(self, numbers: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return means of numbers [numbers, k + 1], what noise adds, and what is `sampled`."""
        mean = numbers[:, -1] - np.diff(numbers) @ self.below
        centred = numbers - mean[:, None]
        weights = self._in_cells(centred)
        return mean, self._noise_of(weights), *self.sampled(centred, weights)

    def _noise_of(self, weights: Floats) -> Floats:
        """Return what noise of variance 1 in each cell adds to means over those with a value."""
        return noise_of(self.noisy, weights) / self.present

    @property
    def mean(self) -> Figure:
        """The mean, if values lie in their bins as they are taken to."""
        (low,), (high,) = self._limits(self.values[None])
        values = self.values
        return Figure(self.mean_of(values), self.error_of(values), float(low), float(high))

    def between(self) -> tuple[Figure, Figure]:
        """Mean and standard deviation, with intervals that hold however values lie in their bins.

        Those beyond the outer edges count as the one value that their bin has.
        """
        least, most = self.places.least, self.places.most
        mean = self.mean
        ((low, _), (_, high)) = self._limits(np.stack([least, most]))
        found = Figure(mean.value, mean.deviation, float(low), float(high))
        return found, self._deviation(found, least, most)

    def _deviation(self, mean: Figure, least: Floats, most: Floats) -> Figure:
        """Bound ``min over c of E (X - c)²``: in each bin by the nearest, and the farthest value.

        A law of values in their bins attains the first, at a c that the interval of the mean holds:
        noise may have its own, far from it. The second is above whatever law there is, at any c.
        Coins add what they vary, to both: a quarter of a step's square at most, 1/6 if values lie
        evenly.
        """
        width, place = most - least, self.places.within
        coins = self.places.rounding(self.values[None])[0]
        # Of a power of a uniform variable, which has this mean in [0, 1]: 1/12 where it is 1/2.
        within = width**2 * (place / (2 - place) - place**2)
        squares = (self.values - mean.value) ** 2 + within - coins * (4 / 6)
        variance = max(self.mean_of(squares), 0.0)
        law = np.maximum(np.diff(self.below, prepend=0, append=1), 0)
        law /= law.sum()

        def far(c: float) -> Floats:
            return np.where(abs(least - c) > abs(most - c), least, most)

        around = _squares_around(far, law, float(least[0]), float(most[-1]))
        centres = np.linspace(mean.low, mean.high, _CENTRES)[:, None]
        nearest = self._limits((np.clip(centres, least, most) - centres) ** 2 - coins)[0].min()
        (farthest,) = self._limits(around[None])[1]
        low, high = (math.sqrt(max(float(one), 0.0)) for one in (nearest, farthest))
        # No law between two values varies more than one of both.
        most_it_is = float(most[-1] - least[0]) / 2
        value = min(math.sqrt(variance), most_it_is)
        error = self.error_of(squares) / (2 * value) if value > 0 else high / SIDES
        return Figure(value, error, min(low, value), min(max(high, value), most_it_is))

    def _limits(self, numbers: Floats) -> Floats:
        """Return lower and upper limits of the means of numbers [numbers, k + 1], [2, numbers]."""
        square, ways = SIDES**2, np.array([[-1], [1]])
        mean, by_noise, sampled, skewness = self._errors(numbers)
        (having,) = self._noise_of(self.cuts[-1:])
        # It is as far from `mean` as sampling and noise would reach if it were true: the root of
        # (1 - c) d² + 2 b d = a.
        a = square * (np.maximum(sampled, 0.0) + (by_noise**2).sum(axis=1))
        b = square * (by_noise @ having - skewness / 2)
        c = square * float(having @ having)
        ends = ways * np.full(len(numbers), math.inf)
        if c < 1:
            ends = mean + (ways * np.sqrt(b**2 + (1 - c) * a) - b) / (1 - c)
        return np.asarray(np.clip(ends, numbers.min(axis=1), numbers.max(axis=1)))

    def inverse(self, levels: Floats) -> Floats:
        """Return where F reaches each level, if values lie around the means of their bins."""
        # As a power of a uniform variable lies in [0, 1]: evenly if its mean is 1/2.
        f, edges = rising(self.below), self.edges
        after = np.searchsorted(f, levels).clip(1, len(f) - 1)
        start, width = edges[after - 1], edges[after] - edges[after - 1]
        within = np.full(len(f) + 1, 0.5) if self.places.is_grid else self.places.within
        mean = np.maximum(within[after], np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            power = 1 / mean - 1
        part = _part(f, after, levels)
        within = np.where(part > 0, part**power, 0.0)  # the power may be 0
        return np.maximum.accumulate(start + width * within)

    def quantiles(self, levels: Sequence[float]) -> tuple[Quantile, ...]:
        """Invert F, and the rising ends of the band around it."""
        # Shapes: tested [levels, 1], reach, above and under [levels, k].
        tested, f = np.array(levels)[:, None], rising(self.below)
        sampled = self._effects_below * tested * (1 - tested) / self.records
        # Of the records below an edge, less as many as there are if this is the level there
        own, _, with_all = self._noise_below
        noise = own - 2 * tested * with_all[:-1] + tested**2 * with_all[-1]
        reach = SIDES * np.sqrt(np.maximum(sampled + noise, 0))
        above = np.maximum.accumulate(f + reach, axis=1)
        under = np.minimum.accumulate((f - reach)[:, ::-1], axis=1)[:, ::-1]
        found = zip(levels, self.inverse(tested[:, 0]).tolist(), above, under, strict=True)
        return tuple(self._quantile(level, value, f, *band) for level, value, *band in found)

    def _quantile(
        self, level: float, value: float, f: Floats, above: Floats, under: Floats
    ) -> Quantile:
        # All that is below the first value of the first cell that may reach the level is in cells
        # that do not; and all of those that do is below the last value of the first of them.
        low = float(self.places.first[above.searchsorted(level)])
        high = float(self.places.last[under.searchsorted(level)])
        value = min(max(value, low), high)
        return Quantile(level, value, low, high, *(side(level, of) for of in (f, above, under)))


def _squares_around(
    values: Callable[[float], Floats], law: Floats, least: float, most: float
) -> Floats:
    """Squares of each bin's distance from the c around which they are the smallest on average."""
    centre = edge(lambda c: float(law @ (c - values(c))) <= 0, least, most, within=1e-12)
    return np.asarray((values(centre) - centre) ** 2)


def edges_read(edges: int) -> NDArray[np.int64]:
    """Which of so many edges F is read at: all, or as many that are spread evenly."""
    return np.linspace(0, edges - 1, min(edges, _MOST)).round().astype(np.int64)


def rising(f: Floats) -> Floats:
    """Return half of the way between the two that rise: noise makes sums of small counts fall."""
    up, down = np.maximum.accumulate(f), np.minimum.accumulate(f[::-1])[::-1]
    return np.asarray((up + down) / 2)


def _part(f: Floats, after: NDArray[np.int64], levels: Floats) -> Floats:
    """Return which part of the way to the edge after it each level is reached, in [0, 1]."""
    start, end = f[after - 1], f[after]
    flat = np.where(levels > start, 1.0, 0.0)  # a level below all of F is before the first edge
    part = np.divide(levels - start, end - start, out=flat, where=end > start)
    return part.clip(0, 1)


def side(level: float, f: Floats) -> Side | None:
    """Say in which open bin a quantile lies, if in one."""
    if level < f[0]:
        return "below"
    return "above" if level > f[-1] else None
