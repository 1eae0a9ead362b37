"""Tests whether D_θ is above a threshold, by the noisy counts of the clients that were asked.

A statistic T reads the ratio r = P / Π off each cell's count and adds up what D_θ adds up. For any
law P of the records, the law of T is known: counts are Poisson variables, and the noise's table is
public. "D_θ is at most τ" is rejected by the largest probability of so large a T under laws at
which D_θ is τ: those on paths from Π through what the counts show, and on fixed paths. That
these are the worst laws is an assumption, which ``simulations/studies/lone_checks.py level``
attacks. Four more statistics see drifts along the order of the symbols, up, down, outwards and
inwards: tangents of D_θ, the mean of a score of records, which is at most D_θ under every law.
Proof note: ``docs/proofs/decisions.md``.

Of 3,000 records in ten equal cells, a fifth have moved from the first half to the others:

>>> from flwr_kld import Labels, Reference
>>> from flwr_kld.kernel.law import SeededBits
>>> from flwr_kld.infer.power import published
>>> from flwr_kld.ask.partition import Partition
>>> from flwr_kld.trust.trusted import Trusted
>>> reference = Reference.from_probabilities(Labels(list("abcdefghij")), [0.1] * 10)
>>> plan = Partition(1000).draw(reference, np.random.default_rng(0))
>>> counts = np.array([180] * 5 + [420] * 5 + [0, 0])
>>> event = Trusted(1.0, 1e-6).event(30)
>>> test = divergence_test(published(counts, plan, event, SeededBits(1)), error=0.001)
>>> test.p_value(0.01) < 0.001, test.p_value(0.2) > 0.5, 0.04 < test.at_least(0.95) < 0.08
(True, True, True)

Numbers that were tuned, and what changes if they are halved or doubled. Five drifts, each 24
checks at the level of one check of a year (two of 50 labels gone, *spread*, *tilted*, tail gone,
*mild* over 200 symbols), are found in 24, 20, 13, 16 and 24; at D_θ exactly, 25 of 1,128 checks in
47 worlds have p < .05, in no world more than 5 of 24, and none has p < .001.

=================  =========  =====================================================================
number             unit       meaning, and what a half or twice as much does
=================  =========  =====================================================================
_RATIOS            part       of the error for T, the rest for tangents: 18, 11, 14 if it is .4
_SHRUNK            variance   of a ratio by chance that halves its reading: 22, 13, 17 / 19, 13, 16
_FLOOR_ERRORS      errors     of an empty cell, below which T reads no further: 17, 9, 13 / gone 0
_HIGHEST_FLOOR     ratio      of the floor at most: mild 19 / no change
_FAR               errors     from which on a cell is taken to have moved: no change, but without
                              it 6 of 16 have p < .05 where one of 1,000 symbols takes over
_HIDDEN            part       of the error for a number of records that is not public
_LIKELIEST         laws       whose tail is computed, by their mean and variance: no change
_NEAREST           records    worth of D_θ at whose law a tangent is laid, at least: no change
_USUAL             errors     below which T is taken for normal: no change / 23 of 1,128
_STEEPEST          rate       of a geometric tail that a slope may reach: no change
_RARE              chance     of values that are left out, all cells together: a hundredth does
                              nothing, a hundred times as much leaves 20 of 1,128
_RECORD_NODES      values     that stand for a count: no change
_NOISE_NODES       values     that stand for the noise: 19 of 1,128 / no change; with 6 and 8 values
                              tails at the level of a year are 3 times too small
=================  =========  =====================================================================

`_TRIES`, `_CLOSE`, `_WITHIN`, `_LONGEST`, `_LENGTHS`, `_LEAST`, `_EXACT` and `_NODE_TABLE` end
searches and interpolations, and `_CERTAIN` keeps a p-value of 1 finite as a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from flwr_kld.common.search import root
from flwr_kld.infer.estimators.score import THETA, Floats, in_blocks
from flwr_kld.infer.fraction_interval import records_between
from flwr_kld.kernel.law import RATIO_BITS, NoiseTable

if TYPE_CHECKING:
    from flwr_kld.ask.noisy import NoisyCounts

_RATIOS = 0.8
_NEAREST = 0.01
_SHRUNK = 2.0
_FLOOR_ERRORS, _HIGHEST_FLOOR = 2.0, 0.4
_FAR = 3.0
_HIDDEN = 0.1
_RECORD_NODES, _NOISE_NODES, _NODE_TABLE = 10, 12, 512
_LIKELIEST = 3
_USUAL = 0.5
_STEEPEST, _RARE = 0.85, 1e-8
_TRIES, _CLOSE = 40, 1e-3
_LONGEST, _LEAST, _EXACT = 12.0, 1e-15, 1e-9
_WITHIN = 1e-4
_CERTAIN = -1e-6
_LENGTHS = np.linspace(-_LONGEST, _LONGEST, 13)


@dataclass(frozen=True, eq=False)
class DivergenceTest:
    """Whether D_θ is at most τ, for every τ. Public."""

    # If so many records were counted, for each number that is tried: one if it is known
    given: tuple[_GivenRecords, ...]
    error: float  # Probability that the number of records is none that these stand for

    def p_value(self, threshold: float) -> float:
        """Return how probable such counts are, at most, if D_θ is at most the threshold."""
        return min(self.error + float(scipy.special.ndtr(-self.quantile(threshold))), 1.0)

    def quantile(self, threshold: float) -> float:
        """Return the standard normal quantile that the counts are worth against a D_θ."""
        return min(given.quantile(threshold) for given in self.given)

    def needed(self, level: float) -> float:
        """Return the quantile from which on a test is sure with this confidence."""
        return -float(scipy.special.ndtri(max(1 - level - self.error, 0.0)))

    def log_evidence(self, threshold: float) -> float:
        """Return ln e, where ``E e <= 1`` if D_θ is at most the threshold: of its p-value."""
        # e is the mean of ``k p^(k - 1)`` over k in [0, 1] (Vovk and Wang 2021).
        p = self.p_value(threshold)
        if p == 1:
            return -math.log(2)
        return math.log((1 - p + p * math.log(p)) / (p * math.log(p) ** 2))

    def at_least(self, level: float) -> float:
        """Return the largest D_θ that is excluded at a confidence level, in nats; 0 if none is."""
        needed = self.needed(level)
        most = min(given.farthest for given in self.given)

        @cache
        def excess(of_nats: float) -> float:  # nearly a line in the root of D_θ
            return max(self.quantile(of_nats**2) - needed, -10.0)

        if excess(0.0) <= 0:
            return 0.0
        ends = (math.sqrt(min(nats, most)) for nats in (self.given[0].reading, most))
        end = next((end for end in ends if excess(end) < 0), None)
        return most if end is None else root(excess, 0.0, end, within=_WITHIN / end / 2) ** 2


def divergence_test(counts: NoisyCounts, *, error: float) -> DivergenceTest:
    """Read the counts of a column, for tests that err with about this probability."""
    if counts.total_is_known:
        return DivergenceTest((_GivenRecords.of(counts, counts.records),), 0.0)
    # The worst of the likely numbers of records (Berger and Boos 1994).
    error *= _HIDDEN
    fewest, most, _ = records_between(counts, 2 * error)
    tried = (fewest, counts.records, most)
    return DivergenceTest(tuple(_GivenRecords.of(counts, n) for n in tried), error)


@dataclass(frozen=True, eq=False)
class _Terms:
    """Laws of independent terms of T: values that stand for each, and their probabilities."""

    values: Floats  # Shape [..., terms, nodes]
    weights: Floats
    times: float | Floats = 1.0  # Of each term, or of each of them: how many there are

    @classmethod
    def of_one_sum(cls, *some: _Terms) -> _Terms:
        """Return the terms of several sums as those of one."""
        ends = np.cumsum([0, *(len(one.values) for one in some)])
        shape = ends[-1], max(one.values.shape[1] for one in some)
        values, weights, times = np.zeros(shape), np.zeros(shape), np.ones(ends[-1])
        for one, first, end in zip(some, ends, ends[1:], strict=False):
            nodes = one.values.shape[1]
            values[first:end, :nodes], weights[first:end, :nodes] = one.values, one.weights
            times[first:end] = one.times
        return cls(values, weights, times)

    @cached_property
    def mean(self) -> Floats:
        """Mean of each term."""
        return np.asarray(np.einsum("...n,...n->...", self.weights, self.values))

    @cached_property
    def variance(self) -> Floats:
        """Variance of each sum."""
        each = np.einsum("...n,...n,...n->...", self.weights, self._centred, self._centred)
        return np.asarray((self.times * each).sum(axis=-1))

    @cached_property
    def _centred(self) -> Floats:
        return np.asarray(self.values - self.mean[..., None])

    @cached_property
    def _powers(self) -> Floats:
        one = np.ones_like(self._centred)
        return np.stack([one, self._centred, self._centred**2], axis=-2)

    @cached_property
    def _times(self) -> Floats:
        return np.broadcast_to(np.float64(self.times), self.values.shape[:-1])

    @cached_property
    def _log_weights(self) -> Floats:
        with np.errstate(divide="ignore"):  # What has no weight has none at any slope
            return np.asarray(np.log(self.weights))

    def cumulants(self, slope: float) -> Floats:
        """Return ``ln E exp(slope · (sum - mean))`` and its first two derivatives."""
        centred = self._centred
        grown = slope * centred
        grown += self._log_weights
        top = grown.max(axis=-1)
        grown -= top[..., None]
        np.exp(grown, out=grown)
        total, first, second = (self._powers @ grown[..., None])[..., 0].T
        first, second = first / total, second / total
        return np.array([np.log(total) + top, first, second - first**2]) @ self._times


@dataclass(frozen=True, eq=False)
class _Paths:
    """Ways from Π to other laws over the cells inside the reference, of any length a."""

    mass: Floats  # Π, shape [cells]
    towards: Floats  # Shape [paths, cells]: d, whose mean under Π is 0
    outside: Floats  # Shape [paths]: fraction of the records that moves outside at a = 1
    straight: int  # On so many, the first ones, r is 1 + a d; on the others it is exp(a d)

    def at(self, nats: float) -> Floats:
        """Return the law on each path at which D_θ is so many nats; shape [laws, cells]."""
        reached = self._at_grid[:, -1] >= nats
        straight = int(np.count_nonzero(reached[: self.straight]))
        paths = _Paths(self.mass, self.towards[reached], self.outside[reached], straight)

        def excess(divergence: Floats) -> Floats:  # nearly a line in the logarithm of the length
            return np.asarray(np.log(np.maximum(divergence, _LEAST) / nats))

        # Regula falsi, as Illinois has it, between two points of the grid
        at_grid, each = self._at_grid[reached], np.arange(len(paths.towards))
        end = np.maximum((at_grid >= nats).argmax(axis=1), 1)
        last, log_length = _LENGTHS[end - 1], _LENGTHS[end]
        at_last, found = excess(at_grid[each, end - 1]), excess(at_grid[each, end])
        for _ in range(_TRIES):
            gap, rise = log_length - last, found - at_last
            step = np.divide(found * gap, rise, out=np.zeros_like(found), where=gap * rise > 0)
            tried = np.minimum(np.maximum(log_length - step, -_LONGEST), _LONGEST)
            ratios = paths._ratios(tried)
            at_tried = excess(self._divergence(ratios))
            if abs(at_tried).max(initial=0.0) < _EXACT:
                break
            crossed = found * at_tried < 0
            last = np.where(crossed, log_length, last)
            at_last = np.where(crossed, found, at_last / 2)
            log_length, found = tried, at_tried
        return np.asarray(ratios * self.mass)

    @property
    def farthest(self) -> float:
        """Return the largest D_θ on these paths, in nats."""
        return float(self._at_grid[:, -1].max())

    @cached_property
    def _at_grid(self) -> Floats:
        """D_θ at `_LENGTHS`, shape [paths, lengths]."""
        lengths = np.repeat(_LENGTHS[:, None], len(self.towards), axis=1)
        blocks = in_blocks(lengths, self.towards.size)
        return np.concatenate([self._divergence(self._ratios(some)) for some in blocks]).T

    def _ratios(self, log_length: Floats) -> Floats:
        """Return r at lengths of shape [..., paths]; one more axis, the cells'."""
        length = np.exp(log_length)
        ratios = length[..., None] * self.towards
        straight, tilted = ratios[..., : self.straight, :], ratios[..., self.straight :, :]
        straight += 1
        np.maximum(straight, 0.0, out=straight)
        tilted -= tilted.max(axis=-1, keepdims=True)
        np.exp(np.maximum(tilted, -600.0, out=tilted), out=tilted)
        inside = 1 - np.minimum(length * self.outside, 1 - 1e-3)
        ratios *= (inside / (ratios @ self.mass))[..., None]
        return ratios

    def _divergence(self, ratios: Floats) -> Floats:
        return np.asarray(-np.log((1 - THETA) * ratios + THETA) @ self.mass)


@dataclass(frozen=True, eq=False)
class _GivenRecords:
    """The test if so many records were counted."""

    mass: Floats  # Π of the cells inside the reference, shape [cells]
    counts: Floats  # Of these cells
    outside: float  # Counted outside the reference, in so many cells
    cells_outside: int
    records: float  # N
    noise: NoiseTable
    place: Floats  # Of each cell in the order of the symbols, by their mass, in [0, 1]

    @classmethod
    def of(cls, noisy: NoisyCounts, records: float) -> _GivenRecords:
        """Take a column's counts for those of so many records."""
        plan, values = noisy.plan, noisy.values.astype(np.float64)
        inside, p = ~plan.outside, plan.reference.probabilities
        middles = np.bincount(plan.cell_of, p * (np.cumsum(p) - p / 2), plan.cells)[inside]
        return cls(
            mass=plan.mass[inside] / plan.mass[inside].sum(),
            counts=values[inside],
            outside=float(values[~inside].sum()),
            cells_outside=int(np.count_nonzero(~inside)),
            records=records,
            noise=noisy.noise,
            place=middles / plan.mass[inside],
        )

    @cached_property
    def farthest(self) -> float:
        """The largest D_θ at which a law is tried, in nats."""
        return self._paths.farthest

    @property
    def reading(self) -> float:
        """What T reads of the counts, in nats: noise and sampling make it larger than D_θ."""
        return self._of_counts / self.records

    def quantile(self, nats: float) -> float:
        """Return the standard normal quantile that the counts are worth against this D_θ."""
        parts = [(_RATIOS, self._of_ratios(nats))]
        parts += [((1 - _RATIOS) / 4, quantile) for quantile in self._along_order(nats)]
        log_p = min(
            float(scipy.special.log_ndtr(-quantile)) - math.log(part) for part, quantile in parts
        )
        return -float(scipy.special.ndtri_exp(min(log_p, _CERTAIN)))

    def _along_order(self, nats: float) -> Iterator[float]:
        """Yield the quantiles of tangents at laws that have drifted along the order."""
        if len(self.mass) < 3:
            return
        tangents = self._ordered.at(max(nats, _NEAREST / self.records))
        values, weights, share = self._of_share
        mixed = (1 - THETA) * tangents / self.mass + THETA
        slopes = (1 - THETA) / mixed
        # Outside the reference a tangent's score would be larger, and very noisy: it is 0.
        mean = (slopes * tangents).sum(axis=1) - np.log(mixed) @ self.mass
        scores = mean[:, None] - slopes
        centred = scores - (scores @ share)[:, None] / max(share.sum(), 1.0)
        terms = _Terms(np.concatenate([centred, scores], axis=1)[..., None] * values, weights)
        above = scores @ self.counts - self.records * nats
        deviation, most = np.sqrt(terms.variance), np.abs(scores).max(axis=1)
        for i in range(len(tangents)):
            each = _Terms(terms.values[i], weights)
            yield self._quantile(float(above[i]), float(deviation[i]), each, float(most[i]))

    @cached_property
    def _of_share(self) -> tuple[Floats, Floats, Floats]:
        """Values and weights that stand for each count, and for the noise in each; the counts."""
        share = np.maximum(self.counts, 0.0)
        noise, likely = (np.tile(one, (len(share), 1)) for one in _noise_nodes(self.noise))
        some = _Terms(*_record_nodes(share)), _Terms(noise, likely)
        both = _Terms.of_one_sum(*some)
        return both.values, both.weights, share

    def _of_ratios(self, nats: float) -> float:
        """Return the least quantile of T under the laws that are tried at this D_θ."""
        if nats > self.farthest:
            return -math.inf
        laws = self.mass[None] if nats <= 0 else self._paths.at(nats)
        weight, (noise, likely) = self._weight_outside(nats), _noise_nodes(self.noise)
        added = _Terms(weight * noise[None], likely[None], times=self.cells_outside)
        tried: list[tuple[float, float, _Terms]] = []
        for some in in_blocks(laws, laws.shape[1] * _RECORD_NODES * len(noise)):
            inside = self._inside(self.records * some)
            outside = self.records * (1 - some.sum(axis=1))
            values, weights = _record_nodes(np.maximum(outside, 0.0)[:, None])
            moved = _Terms(weight * values, weights)
            mean = inside.mean.sum(axis=1) + moved.mean.sum(axis=1)
            above = self._of_counts + weight * self.outside - mean
            deviation = np.sqrt(inside.variance + moved.variance + added.variance)
            for i in np.argsort(above / deviation, kind="stable")[:_LIKELIEST]:
                parts = (_Terms(one.values[i], one.weights[i]) for one in (inside, moved))
                tried.append(
                    (float(above[i]), float(deviation[i]), _Terms.of_one_sum(*parts, added))
                )
        tried = sorted(tried, key=lambda one: one[0] / one[1])[:_LIKELIEST]
        # Laws that are the same, as paths may be, are tried once.
        different = {one[:2]: one for one in tried}.values()
        by_noise = max(weight, self._most_by_noise)
        return min(self._quantile(*one, by_noise) for one in different)

    def _inside(self, means: Floats) -> _Terms:
        """Return the terms of the cells inside the reference whose counts have these means."""
        # Shapes: means [laws, cells].
        values, weights = _record_nodes(means)
        noise, likely = _noise_nodes(self.noise)
        joint = weights[..., None] * likely
        # What is too rare to matter would rule the moments: a reading falls like a logarithm.
        joint *= joint >= _RARE / len(self.mass)
        shape = (*means.shape, -1)
        return _Terms(self._read((values[..., None] + noise).reshape(shape)), joint.reshape(shape))

    def _quantile(self, above: float, deviation: float, terms: _Terms, by_noise: float) -> float:
        """Return the quantile of a sum of terms that is so much above its mean (saddlepoint).

        A record's worth of noise moves the sum by `by_noise` at most.
        """
        if above <= _USUAL * deviation:
            return above / deviation
        steepest = _STEEPEST * self._rate / by_noise
        slope, found, most = min(above / deviation**2, steepest), False, _CLOSE
        for _ in range(_TRIES):
            moment, mean, curve = terms.cumulants(slope).tolist()
            most = max(most, 2 * (slope * above - moment))
            curve = max(curve, _CLOSE * deviation**2)
            step = (above - mean) / curve
            found = abs(step) < _CLOSE * slope
            if found or (slope == steepest and step > 0):
                break
            slope = min(max(slope + step, slope / 3), 1.5 * slope, steepest)
        gained = math.sqrt(most)
        if not found:  # Chernoff's bound holds at every slope
            return gained
        # The tail of Lugannani and Rice (1980), in the form of Barndorff-Nielsen.
        return gained + math.log(slope * math.sqrt(curve) / gained) / gained

    @cached_property
    def _rate(self) -> float:
        """Rate at which the noise's tail falls: moments of larger slopes are infinite."""
        if not self.noise.tail:
            return math.inf
        return -math.log(self.noise.tail_ratio / 2.0**RATIO_BITS)

    @cached_property
    def _most_by_noise(self) -> float:
        """What a record's worth of noise adds to T in a cell, at most, but for very rare noise."""
        reach = -math.log(_RARE) / self._rate
        mixed = (1 - THETA) * (1 + reach / (self.records * self.mass)) + THETA
        return (1 - THETA) * float((1 - 1 / mixed).max())

    @cached_property
    def _of_counts(self) -> float:
        return float(self._read(self.counts[:, None]).sum())

    def _weight_outside(self, nats: float) -> float:
        """Return the weight of a record outside: less than D_θ's where its noise would drown T."""
        chance = len(self.mass) / 2 + 2 * self.records * nats  # about the variance of the rest of T
        return (1 - THETA) * chance / (chance + self.cells_outside * self.noise.variance)

    @cached_property
    def _chance(self) -> Floats:
        """Variance of a cell's ratio by sampling and noise where nothing drifted, shape [cells]."""
        expected = self.records * self.mass
        return np.asarray((1 + self.noise.variance / expected) / expected)

    @cached_property
    def _floor(self) -> Floats:
        """Ratio below which a reading falls no further, by what chance hides, shape [cells]."""
        errors = np.sqrt(self.noise.variance + 1) / (self.records * self.mass)
        return np.asarray(np.minimum(_FLOOR_ERRORS * errors, _HIGHEST_FLOOR))

    @cached_property
    def _line(self) -> tuple[Floats, Floats, Floats]:
        """Slope and intercept in the count of what T takes the logarithm of, and its floor."""
        expected = (self.records * self.mass)[:, None]
        kept = 1 / (1 + self._chance[:, None] / _SHRUNK)
        floor = (1 - THETA) * self._floor[:, None] + THETA
        return (1 - THETA) * kept / expected, (1 - THETA) * (1 - kept) + THETA, floor

    def _read(self, counts: Floats) -> Floats:
        """Return each cell's term of T at counts of shape [..., cells, values]."""
        slope, intercept, floor = self._line
        mixed = slope * counts
        mixed += intercept
        np.maximum(mixed, floor, out=mixed)
        logarithm = np.log(mixed)
        mixed -= 1
        mixed -= logarithm
        mixed *= (self.records * self.mass)[:, None]
        return mixed

    @cached_property
    def _ordered(self) -> _Paths:
        along = math.sqrt(3) * (2 * self.place - 1)
        across = math.sqrt(5) * (6 * self.place**2 - 6 * self.place + 1)
        towards = np.stack([along, -along, across, -across])
        return _Paths(self.mass, towards, np.zeros(len(towards)), 0)

    @cached_property
    def _paths(self) -> _Paths:
        mass, cells = self.mass, len(self.mass)
        moved = self.counts / (self.records * mass) - 1
        kept = np.maximum(moved / (1 + self._chance / _SHRUNK), -1.0)
        outside = min(max(self.outside / self.records, 0.0), 1.0)
        far = np.abs(moved) > _FAR * np.sqrt(self._chance)
        order = np.argsort(mass, kind="stable")
        light, even = np.zeros(cells), np.zeros(cells)
        light[order[np.cumsum(mass[order]) <= 0.5]] = 1.0
        even[order] = np.arange(cells) % 2
        straight = [
            np.zeros(cells), kept, kept, np.where(far, np.maximum(moved, -1.0), 0.0),
            light, 1 - light, even, 1 - even,
        ]  # fmt: skip
        towards = np.array([*straight, kept, np.where(far, kept, 0.0)])
        leaves = np.zeros(len(towards))
        leaves[:2] = 1.0, outside
        return _Paths(mass, towards - (towards @ mass)[:, None], leaves, len(straight))


def _record_nodes(means: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights of Poisson laws with these means; one more axis, the nodes'."""
    places, table, slopes = _poisson_table()
    place = 1 / np.sqrt(1 + means)
    low = np.minimum((place * len(slopes)).astype(np.int64), len(slopes) - 1)
    found = table[low] + slopes[low] * (place - places[low])[..., None]
    values = means[..., None] + found[..., :_RECORD_NODES] / place[..., None]
    return np.maximum(values, 0.0), found[..., _RECORD_NODES:]


@lru_cache(maxsize=1)
def _poisson_table() -> tuple[Floats, Floats, Floats]:
    """Gauss quadrature of Poisson laws of mean μ (Charlier), in standard units, by 1/√(1 + μ).

    The places; nodes and then weights at each, shape [places, 2 nodes]; their slopes between two.
    """
    places = np.linspace(0.0, 1.0, _NODE_TABLE)
    k = np.arange(_RECORD_NODES)
    jacobi = np.zeros((_NODE_TABLE, _RECORD_NODES, _RECORD_NODES))
    jacobi[:, k, k] = k * places[:, None]
    jacobi[:, k[1:], k[:-1]] = np.sqrt(k[1:] * (1 - places[:, None] ** 2))
    nodes, vectors = np.linalg.eigh(jacobi)
    table = np.concatenate([nodes, vectors[:, 0] ** 2], axis=1)
    return places, table, np.diff(table, axis=0) / np.diff(places)[:, None]


@lru_cache(maxsize=16)
def _noise_nodes(noise: NoiseTable) -> tuple[Floats, Floats]:
    """Gauss quadrature of the noise (Lanczos 1950): exact for polynomials of degree 23."""
    support, last = noise.support.astype(np.float64), np.sqrt(noise.probabilities)
    basis, off = [last / np.linalg.norm(last)], list[float]()
    while len(basis) < min(_NOISE_NODES, int(np.count_nonzero(last))):
        step = support * basis[-1]
        for one in basis:
            step = step - (one @ step) * one
        off.append(float(np.linalg.norm(step)))
        basis.append(step / off[-1])
    nodes, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return nodes, vectors[0] ** 2
