"""Tests whether D_θ is above a threshold, by the noisy counts of the clients that were asked.

A statistic T reads the ratio r = P / Π off each cell's count and adds up what D_θ adds up. For any
law P of the records, the law of T is known: counts are Poisson variables, and the noise's table is
public. "D_θ is at most τ" is rejected by the largest probability of so large a T under laws at
which D_θ is τ: those on paths from Π through what the counts show, and on fixed paths. That
these are the worst laws is an assumption, which ``simulations/studies/lone_checks.py level``
attacks. Four more statistics see drifts along the order of the symbols, up, down, outwards and
inwards: tangents of D_θ, the mean of a score of records, which is at most D_θ under every law.
Columns of equal shape are tested together, each as if it were alone: a *row* of an array is a
column, given a number of records. Proof note: ``docs/proofs/decisions.md``.

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
>>> tests = divergence_tests([published(counts, plan, event, SeededBits(1))], error=0.001)
>>> bool(tests.p_values(0.01) < 0.001), bool(tests.p_values(0.2) > 0.5)
(True, True)
>>> bool(0.04 < tests.at_least(0.95) < 0.08)
True

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.common.search import roots
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
_KINDS = 10  # Not tuned: as many as `_paths` lists
_USUAL = 0.5
_STEEPEST, _RARE = 0.85, 1e-8
_TRIES, _CLOSE = 40, 1e-3
_LONGEST, _LEAST, _EXACT = 12.0, 1e-15, 1e-9
_WITHIN = 1e-4
_CERTAIN = -1e-6
_LENGTHS = np.linspace(-_LONGEST, _LONGEST, 13)

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DivergenceTests:
    """Whether D_θ is at most τ, for every τ, of each of several columns. Public."""

    # Shapes: of all that is taken and returned, [columns].

    error: Floats  # Probability that the number of records is none that was tried
    shapes: tuple[tuple[Rows, _EqualColumns], ...]  # Which columns are of one shape, and their test

    def p_values(self, thresholds: float | Floats) -> Floats:
        """Return how probable such counts are, at most, if D_θ is at most the threshold."""
        tail = scipy.special.ndtr(-self.quantiles(thresholds))
        return np.asarray(np.minimum(self.error + tail, 1.0))

    def quantiles(self, thresholds: float | Floats) -> Floats:
        """Return the standard normal quantiles that the counts are worth against a D_θ."""
        nats, found = np.broadcast_to(thresholds, self.error.shape), np.empty_like(self.error)
        for columns, equal in self.shapes:
            found[columns] = equal.quantiles(nats[columns], np.arange(len(columns)))
        return found

    def needed(self, level: float | Floats) -> Floats:
        """Return the quantiles from which on a test is sure with this confidence."""
        return np.asarray(-scipy.special.ndtri(np.maximum(1 - level - self.error, 0.0)))

    def at_least(self, level: float | Floats) -> Floats:
        """Return the largest D_θ that is excluded at a confidence level, in nats; 0 if none is."""
        needed, found = self.needed(level), np.empty_like(self.error)
        for columns, equal in self.shapes:
            found[columns] = equal.at_least(needed[columns])
        return found


def log_evidence(p_value: float) -> float:
    """Return ln e of a p-value, where ``E e <= 1`` if D_θ is at most the threshold."""
    # e is the mean of ``k p^(k - 1)`` over k in [0, 1] (Vovk and Wang 2021).
    if p_value == 1:
        return -math.log(2)
    log_p = math.log(p_value)
    return math.log((1 - p_value + p_value * log_p) / (p_value * log_p**2))


def divergence_tests(columns: Sequence[NoisyCounts], *, error: float) -> DivergenceTests:
    """Read the counts of columns, for tests that err with about this probability each."""
    shapes: dict[tuple[int, NoiseTable, bool], list[int]] = {}
    for i, one in enumerate(columns):
        shape = int(np.count_nonzero(~one.plan.outside)), one.noise, one.total_is_known
        shapes.setdefault(shape, []).append(i)
    hidden = np.array([0.0 if one.total_is_known else _HIDDEN * error for one in columns])
    return DivergenceTests(
        hidden,
        tuple(
            (np.array(which), _EqualColumns.of([columns[i] for i in which], noise, _HIDDEN * error))
            for (_, noise, _), which in shapes.items()
        ),
    )


@dataclass(frozen=True, eq=False)
class _Terms:
    """Laws of independent terms of sums: values that stand for each, and their probabilities."""

    # The nodes come first, for loops along sums and terms are long

    values: Floats  # Shape [nodes, sums, terms]
    weights: Floats  # The same, or what it is broadcast from
    times: float | Floats = 1.0  # Of each term, [sums, terms]: how many there are

    @cached_property
    def mean(self) -> Floats:
        """Mean of each sum, shape [sums]."""
        return np.asarray((self.times * self._means).sum(axis=-1))

    @cached_property
    def variance(self) -> Floats:
        """Variance of each sum, shape [sums]."""
        each = np.einsum("nst,nst,nst->st", self.weights, self._centred, self._centred)
        return np.asarray((self.times * each).sum(axis=-1))

    @cached_property
    def _means(self) -> Floats:
        return np.asarray(np.einsum("nst,nst->st", self.weights, self.values))

    @cached_property
    def _centred(self) -> Floats:
        return np.asarray(self.values - self._means)

    def centred(self, sums: Rows) -> _Centred:
        """Return some of the sums, less their means."""
        weights = np.broadcast_to(self.weights, self.values.shape).take(sums, axis=1)
        values = np.where(weights > 0, self._centred.take(sums, axis=1), 0.0)
        times = np.broadcast_to(np.float64(self.times), self.values.shape[1:])[sums]
        return _Centred(values, weights, times, values.max(axis=0))


@dataclass(frozen=True, eq=False)
class _Centred:
    """Terms of sums less their means: values without weight are 0, and count nowhere."""

    values: Floats  # Shape [nodes, sums, terms]
    weights: Floats
    times: Floats  # Shape [sums, terms]
    highest: Floats  # Of the values

    def some(self, which: NDArray[np.bool_]) -> _Centred:
        """Return some of the sums."""
        return _Centred(
            self.values[:, which], self.weights[:, which], self.times[which], self.highest[which]
        )

    def cumulants(self, slope: Floats) -> Floats:
        """Return ``ln E exp(slope · sum)`` and two derivatives, shape [3, sums]."""
        slopes = np.repeat(slope[:, None], self.times.shape[1], axis=1)
        top = slopes * self.highest
        grown = slopes * self.values
        grown -= top
        np.exp(grown, out=grown)
        grown *= self.weights
        total = grown.sum(axis=0)
        grown *= self.values
        first = grown.sum(axis=0) / total
        second = np.einsum("nst,nst->st", grown, self.values) / total
        each = np.array([np.log(total) + top, first, second - first**2])
        return np.asarray((each * self.times).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class _Paths:
    """Ways from Π to other laws over the cells inside the reference, of any length a."""

    mass: Floats  # Π, shape [paths, cells]
    towards: Floats  # d, whose mean under Π is 0, shape [paths, cells]
    outside: Floats  # Shape [paths]: fraction of the records that moves outside at a = 1
    straight: int  # On so many, the first ones, r is 1 + a d; on the others it is exp(a d)

    def at(self, paths: Rows, nats: Floats) -> Floats:
        """Return the law on some paths, ascending, at which D_θ is `nats`; shape [some, cells]."""
        # D_θ is so large at the end of each. Regula falsi, as Illinois has it, between two points
        # of the grid.
        at_grid, each = self.at_grid[paths], np.arange(len(paths))
        end = np.maximum((at_grid >= nats[:, None]).argmax(axis=1), 1)
        last, log_length = _LENGTHS[end - 1], _LENGTHS[end]
        at_last, found = (_excess(at_grid[each, place], nats) for place in (end - 1, end))
        laws = np.empty((len(paths), self.mass.shape[1]))
        for _ in range(_TRIES):
            gap, rise = log_length - last, found - at_last
            step = np.divide(found * gap, rise, out=np.zeros_like(found), where=gap * rise > 0)
            tried = np.minimum(np.maximum(log_length - step, -_LONGEST), _LONGEST)
            some = paths[each]
            ratios = self._ratios(some, tried)
            at_tried = _excess(self._divergence(some, ratios), nats[each])
            laws[each] = ratios * self.mass[some]
            open_ = np.abs(at_tried) >= _EXACT
            if not open_.any():
                break
            crossed = found * at_tried < 0
            last = np.where(crossed, log_length, last)[open_]
            at_last = np.where(crossed, found, at_last / 2)[open_]
            each, log_length, found = each[open_], tried[open_], at_tried[open_]
        return laws

    @cached_property
    def at_grid(self) -> Floats:
        """D_θ at `_LENGTHS`, shape [paths, lengths]."""
        found = np.empty((len(self.mass), len(_LENGTHS)))
        for some in in_blocks(np.arange(len(found)), self.mass.shape[1]):
            for i, log_length in enumerate(_LENGTHS):
                ratios = self._ratios(some, np.full(len(some), log_length))
                found[some, i] = self._divergence(some, ratios)
        return found

    def _ratios(self, paths: Rows, log_length: Floats) -> Floats:
        """Return r on some paths, ascending, at lengths of shape [some]; shape [some, cells]."""
        length, straight = np.exp(log_length), int(np.searchsorted(paths, self.straight))
        ratios = length[:, None] * self.towards[paths]
        lines, tilted = ratios[:straight], ratios[straight:]
        lines += 1
        np.maximum(lines, 0.0, out=lines)
        tilted -= tilted.max(axis=1, keepdims=True)
        np.exp(np.maximum(tilted, -600.0, out=tilted), out=tilted)
        inside = 1 - np.minimum(length * self.outside[paths], 1 - 1e-3)
        ratios *= (inside / np.einsum("pc,pc->p", ratios, self.mass[paths]))[:, None]
        return ratios

    def _divergence(self, paths: Rows, ratios: Floats) -> Floats:
        logarithms = np.log((1 - THETA) * ratios + THETA)
        return np.asarray(-np.einsum("pc,pc->p", logarithms, self.mass[paths]))


def _excess(divergence: Floats, nats: Floats) -> Floats:
    """Return what is 0 where a divergence is `nats`: nearly a line in ln of a path's length."""
    return np.asarray(np.log(np.maximum(divergence, _LEAST) / nats))


@dataclass(frozen=True, eq=False)
class _EqualColumns:
    """The test of columns with as many cells and the same noise, given numbers of records."""

    # Shapes: R rows, of which each column has `tried`, one after the other.

    tried: int  # Numbers of records that are tried: one if it is known
    mass: Floats  # Π of the cells inside the reference, shape [R, cells]
    counts: Floats  # Of these cells
    outside: Floats  # Counted outside the reference, in so many cells, shape [R]
    cells_outside: Floats
    records: Floats  # N, shape [R]
    noise: NoiseTable
    place: Floats  # Of each cell in the order of the symbols, by their mass, in [0, 1]

    @classmethod
    def of(cls, columns: Sequence[NoisyCounts], noise: NoiseTable, error: float) -> _EqualColumns:
        """Read counts; where N is unknown, it is tried what it is but for this probability."""
        mass, counts, places, outside, records = [], [], [], [], list[Floats]()
        for one in columns:
            plan, values = one.plan, one.values.astype(np.float64)
            inside, p = ~plan.outside, plan.reference.probabilities
            middles = np.bincount(plan.cell_of, p * (np.cumsum(p) - p / 2), plan.cells)[inside]
            mass.append(plan.mass[inside] / plan.mass[inside].sum())
            counts.append(values[inside])
            places.append(middles / plan.mass[inside])
            outside.append((values[~inside].sum(), np.count_nonzero(~inside)))
            records.append(_records(one, error))
        tried = len(records[0])

        def in_rows(of_columns: Sequence[object]) -> Floats:
            return np.repeat(np.array(of_columns, dtype=np.float64), tried, axis=0)

        held, cells = in_rows(outside).T
        return cls(
            tried=tried,
            mass=in_rows(mass),
            counts=in_rows(counts),
            outside=held,
            cells_outside=cells,
            records=np.concatenate(records),
            noise=noise,
            place=in_rows(places),
        )

    def at_least(self, needed: Floats) -> Floats:
        """Return the largest D_θ whose quantile is the needed one, of each column, in nats."""
        most = self.farthest.reshape(-1, self.tried).min(axis=1)

        def excess(of_nats: Floats, columns: Rows) -> Floats:  # nearly lines in the root of D_θ
            return np.maximum(self.quantiles(of_nats**2, columns) - needed[columns], -10.0)

        found, end, at_end = np.zeros((3, len(needed)))
        at_zero = excess(found, np.arange(len(needed)))
        columns = np.flatnonzero(at_zero > 0)
        for nats in (np.minimum(self.reading[:: self.tried], most), most):
            there = np.sqrt(nats[columns])
            at_there = excess(there, columns)
            below = at_there < 0
            end[columns[below]], at_end[columns[below]] = there[below], at_there[below]
            columns = columns[~below]
        found[columns] = most[columns]
        some = np.flatnonzero(at_end < 0)

        def of_some(of_nats: Floats, which: Rows) -> Floats:
            return excess(of_nats, some[which])

        low, high = (found[some], at_zero[some]), (end[some], at_end[some])
        found[some] = roots(of_some, low, high, within=_WITHIN / end[some] / 2) ** 2
        return found

    @property
    def farthest(self) -> Floats:
        """The largest D_θ at which a law is tried, in nats, shape [R]."""
        return np.asarray(self._paths.at_grid[:, -1].reshape(-1, len(self.mass)).max(axis=0))

    @property
    def reading(self) -> Floats:
        """What T reads of the counts, in nats: noise and sampling make it larger than D_θ."""
        return self._of_counts / self.records

    def quantiles(self, nats: Floats, columns: Rows) -> Floats:
        """Return the standard normal quantiles that counts of some columns are worth against D_θ.

        `columns` ascend; `nats` are of each of them.
        """
        rows = (columns[:, None] * self.tried + np.arange(self.tried)).ravel()
        against = np.repeat(nats, self.tried)
        found = np.empty(len(rows))
        for some in in_blocks(np.arange(len(rows)), _KINDS * self.mass.shape[1]):
            found[some] = self._quantiles(against[some], rows[some])
        # The worst of the likely numbers of records (Berger and Boos 1994).
        return np.asarray(found.reshape(-1, self.tried).min(axis=1))

    def _quantiles(self, nats: Floats, rows: Rows) -> Floats:
        """Return the quantiles of some rows, by all statistics together."""
        log_p = scipy.special.log_ndtr(-self._of_ratios(nats, rows)) - math.log(_RATIOS)
        of, tangents = self._along_order(nats, rows)
        each = scipy.special.log_ndtr(-tangents) - math.log((1 - _RATIOS) / 4)
        np.minimum.at(log_p, of, each)
        return np.asarray(-scipy.special.ndtri_exp(np.minimum(log_p, _CERTAIN)))

    def _along_order(self, nats: Floats, rows: Rows) -> tuple[Rows, Floats]:
        """Return the quantiles of tangents at laws that have drifted along the order.

        And which of the rows each is of; shape [tangents].
        """
        if self.mass.shape[1] < 3:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        laid = np.maximum(nats, _NEAREST / self.records[rows])
        of, paths = self._reached(self._ordered, laid, rows)
        tangents, row = self._ordered.at(paths, laid[of]), rows[of]
        mass = self.mass[row]
        mixed = (1 - THETA) * tangents / mass + THETA
        slopes = (1 - THETA) / mixed
        # Outside the reference a tangent's score would be larger, and very noisy: it is 0.
        mean = (slopes * tangents).sum(axis=1) - (np.log(mixed) * mass).sum(axis=1)
        scores = mean[:, None] - slopes
        share = np.maximum(self.counts, 0.0)[row]
        held = (scores * share).sum(axis=1) / np.maximum(share.sum(axis=1), 1.0)
        above = (scores * self.counts[row]).sum(axis=1) - self.records[row] * nats[of]
        found, (noise, likely) = np.empty(len(of)), _noise_nodes(self.noise)
        for some in in_blocks(np.arange(len(of)), mass.shape[1] * (_RECORD_NODES + len(noise))):
            values, weights = _record_nodes(share[some])
            counted = _Terms((scores[some] - held[some, None]) * values, weights)
            noised = _Terms(scores[some] * noise, likely)
            steepest = _STEEPEST * self._rate / np.abs(scores[some]).max(axis=1)
            variance = counted.variance + noised.variance
            found[some] = _tails(above[some], variance, (counted, noised), steepest)
        return of, found

    def _reached(self, paths: _Paths, nats: Floats, rows: Rows) -> tuple[Rows, Rows]:
        """Return which of some rows have paths on which D_θ becomes so large, and these paths."""
        kinds = len(paths.mass) // len(self.mass)
        those = np.arange(kinds)[:, None] * len(self.mass) + rows
        kind, of = np.nonzero(paths.at_grid[those, -1] >= nats)
        return of, those[kind, of]

    def _of_ratios(self, nats: Floats, rows: Rows) -> Floats:
        """Return the least quantile of T under the laws that are tried at this D_θ."""
        still = np.flatnonzero(nats <= 0)
        against = np.where(nats <= 0, math.inf, nats)
        of, paths = self._reached(self._paths, against, rows)
        laws = np.concatenate([self._paths.at(paths, nats[of]), self.mass[rows[still]]])
        of = np.concatenate([of, still])
        row, weight = rows[of], self._weight_outside(nats, rows)[of]
        blocks = laws.shape[1] * _RECORD_NODES * len(_noise_nodes(self.noise)[0])
        above, variance = np.empty(len(of)), np.empty(len(of))
        for some in in_blocks(np.arange(len(of)), blocks):
            terms = self._terms(laws[some], row[some], weight[some])
            counted = self._of_counts[row[some]] + weight[some] * self.outside[row[some]]
            above[some] = counted - sum(one.mean for one in terms[:2])
            variance[some] = sum(one.variance for one in terms)
        # The likeliest laws of each row; laws that are the same, as paths may be, are tried once.
        order = np.lexsort((above / np.sqrt(variance), of))
        rank = np.arange(len(order)) - np.searchsorted(of[order], of[order])
        same = np.diff(np.stack([above, variance, of])[:, order], prepend=math.nan) == 0
        likeliest = order[(rank < _LIKELIEST) & ~same.all(axis=0)]
        found = np.full(len(nats), -math.inf)
        found[of] = math.inf
        for some in in_blocks(likeliest, blocks):
            terms = self._terms(laws[some], row[some], weight[some])
            by_noise = np.maximum(weight[some], self._most_by_noise[row[some]])
            steepest = _STEEPEST * self._rate / by_noise
            tails = _tails(above[some], variance[some], terms, steepest)
            np.minimum.at(found, of[some], tails)
        return found

    def _terms(self, laws: Floats, rows: Rows, weight: Floats) -> tuple[_Terms, _Terms, _Terms]:
        """Return the terms of T under laws: cells inside, records outside, and their noise."""
        # Shapes: laws [laws, cells], rows and weight [laws].
        records, cells = self.records[rows], laws.shape[1]
        values, weights = _record_nodes(records[:, None] * laws)
        noise, likely = _noise_nodes(self.noise)
        shape = (_RECORD_NODES * len(noise), *laws.shape)
        joint = (weights[:, None] * likely).reshape(shape)
        # What is too rare to matter would rule the moments: a reading falls like a logarithm.
        rare = np.flatnonzero(joint.min(axis=(1, 2), initial=1.0) < _RARE / cells)
        joint[rare] *= joint[rare] >= _RARE / cells
        read = self._read(values[:, None], rows, noise).reshape(shape)
        moved, chance = _record_nodes(np.maximum(records * (1 - laws.sum(axis=1)), 0.0)[:, None])
        weight, times = weight[:, None], self.cells_outside[rows][:, None]
        return (
            _Terms(read, joint),
            _Terms(weight * moved, chance),
            _Terms(weight * noise, likely, times),
        )

    @cached_property
    def _rate(self) -> float:
        """Rate at which the noise's tail falls: moments of larger slopes are infinite."""
        if not self.noise.tail:
            return math.inf
        return -math.log(self.noise.tail_ratio / 2.0**RATIO_BITS)

    @cached_property
    def _most_by_noise(self) -> Floats:
        """What a record's worth of noise adds to T in a cell, at most, but for very rare noise."""
        reach = -math.log(_RARE) / self._rate
        mixed = (1 - THETA) * (1 + reach / self._expected) + THETA
        return np.asarray((1 - THETA) * (1 - 1 / mixed).max(axis=1))

    @cached_property
    def _of_counts(self) -> Floats:
        read = self._read(self.counts, np.arange(len(self.counts)))
        return np.asarray(read.sum(axis=1))

    def _weight_outside(self, nats: Floats, rows: Rows) -> Floats:
        """Return the weight of a record outside: less than D_θ's where its noise would drown T."""
        # About the variance of the rest of T
        chance = self.mass.shape[1] / 2 + 2 * self.records[rows] * nats
        by_noise = self.cells_outside[rows] * self.noise.variance
        return np.asarray((1 - THETA) * chance / (chance + by_noise))

    @cached_property
    def _expected(self) -> Floats:
        """N Π, shape [R, cells]."""
        return self.records[:, None] * self.mass

    @cached_property
    def _chance(self) -> Floats:
        """Variance of a cell's ratio by sampling and noise where nothing drifted, [R, cells]."""
        return np.asarray((1 + self.noise.variance / self._expected) / self._expected)

    @cached_property
    def _floor(self) -> Floats:
        """Ratio below which a reading falls no further, by what chance hides, [R, cells]."""
        errors = math.sqrt(self.noise.variance + 1) / self._expected
        return np.asarray(np.minimum(_FLOOR_ERRORS * errors, _HIGHEST_FLOOR))

    @cached_property
    def _line(self) -> tuple[Floats, Floats, Floats]:
        """Slope and intercept in the count of what T takes the logarithm of, and its floor."""
        kept = 1 / (1 + self._chance / _SHRUNK)
        floor = (1 - THETA) * self._floor + THETA
        return (1 - THETA) * kept / self._expected, (1 - THETA) * (1 - kept) + THETA, floor

    def _read(self, counts: Floats, rows: Rows, noise: float | Floats = 0.0) -> Floats:
        """Return each cell's term of T at noisy counts of some rows, shape [..., some, cells]."""
        slope, intercept, floor = (x[rows] for x in self._line)
        mixed = (slope * counts + intercept) + slope * noise
        np.maximum(mixed, floor, out=mixed)
        logarithm = np.log(mixed)
        mixed -= 1
        mixed -= logarithm
        mixed *= self._expected[rows]
        return mixed

    @cached_property
    def _ordered(self) -> _Paths:
        along = math.sqrt(3) * (2 * self.place - 1)
        across = math.sqrt(5) * (6 * self.place**2 - 6 * self.place + 1)
        towards = np.concatenate([along, -along, across, -across])
        return _Paths(np.tile(self.mass, (4, 1)), towards, np.zeros(len(towards)), 0)

    @cached_property
    def _paths(self) -> _Paths:
        """Paths of `_KINDS` kinds, all rows' of one kind after those of the other."""
        mass, (rows, cells) = self.mass, self.mass.shape
        moved = self.counts / self._expected - 1
        kept = np.maximum(moved / (1 + self._chance / _SHRUNK), -1.0)
        outside = np.minimum(np.maximum(self.outside / self.records, 0.0), 1.0)
        left = np.where(outside[:, None] > 0, kept, 0.0)  # otherwise it is as where none leave
        far = np.abs(moved) > _FAR * np.sqrt(self._chance)
        order = np.argsort(mass, axis=1, kind="stable")
        light, even = np.zeros_like(mass), np.zeros_like(mass)
        cumulated = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1)
        np.put_along_axis(light, order, np.where(cumulated <= 0.5, 1.0, 0.0), axis=1)
        np.put_along_axis(even, order, np.tile(np.arange(cells) % 2.0, (rows, 1)), axis=1)
        straight = [
            np.zeros_like(mass), left, kept, np.where(far, np.maximum(moved, -1.0), 0.0),
            light, 1 - light, even, 1 - even,
        ]  # fmt: skip
        towards = np.stack([*straight, kept, np.where(far, kept, 0.0)])
        towards -= (towards * mass).sum(axis=2, keepdims=True)
        leaves = np.zeros((len(towards), rows))
        leaves[0], leaves[1] = 1.0, outside
        return _Paths(
            np.tile(mass, (len(towards), 1)),
            towards.reshape(-1, cells),
            leaves.ravel(),
            len(straight) * rows,
        )


def _records(counts: NoisyCounts, error: float) -> Floats:
    """Return the numbers of records that are tried: the known one, or what it is but for errors."""
    if counts.total_is_known:
        return np.array([counts.records])
    fewest, most, _ = records_between(counts, 2 * error)
    return np.array([fewest, counts.records, most])


def _tails(above: Floats, variance: Floats, terms: Sequence[_Terms], steepest: Floats) -> Floats:
    """Return the quantiles of sums of such variances that are so much above their means.

    By a saddlepoint, of all terms together, at slopes of `steepest` at most; shape [sums].
    """
    deviation = np.sqrt(variance)
    gained = above / deviation  # of a normal law
    each = np.flatnonzero(above > _USUAL * deviation)
    slope = np.minimum(gained / deviation, steepest)
    most = np.full(len(above), _CLOSE)
    centred = [one.centred(each) for one in terms]
    for _ in range(_TRIES):
        if not len(each):
            break
        at, over = slope[each], above[each]
        moment, mean, curve = np.sum([one.cumulants(at) for one in centred], axis=0)
        most[each] = np.maximum(most[each], 2 * (at * over - moment))
        curve = np.maximum(curve, _CLOSE * variance[each])
        step = (over - mean) / curve
        found = np.abs(step) < _CLOSE * at
        # Chernoff's bound holds at every slope
        root = np.sqrt(most[each])
        gained[each] = root
        # The tail of Lugannani and Rice (1980), in the form of Barndorff-Nielsen.
        gained[each[found]] += (np.log(at * np.sqrt(curve) / root) / root)[found]
        still = ~found & ~((at == steepest[each]) & (step > 0))
        if not still.all():
            centred = [one.some(still) for one in centred]
        at, step, each = at[still], step[still], each[still]
        slope[each] = np.minimum(
            np.minimum(np.maximum(at + step, at / 3), 1.5 * at), steepest[each]
        )
    return np.asarray(gained)


def _record_nodes(means: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights of Poisson laws with these means; a first axis is the nodes'."""
    places, table, slopes = _poisson_table()
    place = 1 / np.sqrt(1 + means)
    last = len(places) - 2
    low = np.minimum((place * (last + 1)).astype(np.int64), last)
    found = slopes.take(low, axis=1)
    found *= place - places[low]
    found += table.take(low, axis=1)
    values = means + found[:_RECORD_NODES] / place
    return np.maximum(values, 0.0), found[_RECORD_NODES:]


@lru_cache(maxsize=1)
def _poisson_table() -> tuple[Floats, Floats, Floats]:
    """Gauss quadrature of Poisson laws of mean μ (Charlier), in standard units, by 1/√(1 + μ).

    The places; nodes and then weights at each, shape [2 nodes, places]; their slopes between two.
    """
    places = np.linspace(0.0, 1.0, _NODE_TABLE)
    k = np.arange(_RECORD_NODES)
    jacobi = np.zeros((_NODE_TABLE, _RECORD_NODES, _RECORD_NODES))
    jacobi[:, k, k] = k * places[:, None]
    jacobi[:, k[1:], k[:-1]] = np.sqrt(k[1:] * (1 - places[:, None] ** 2))
    nodes, vectors = np.linalg.eigh(jacobi)
    table = np.concatenate([nodes.T, (vectors[:, 0] ** 2).T])
    return places, table, np.diff(table) / np.diff(places)


@lru_cache(maxsize=16)
def _noise_nodes(noise: NoiseTable) -> tuple[Floats, Floats]:
    """Gauss quadrature of the noise (Lanczos 1950): exact for polynomials of degree 23.

    Nodes and weights, shape [nodes, 1, 1].
    """
    support, last = noise.support.astype(np.float64), np.sqrt(noise.probabilities)
    basis, off = [last / np.linalg.norm(last)], list[float]()
    while len(basis) < min(_NOISE_NODES, int(np.count_nonzero(last))):
        step = support * basis[-1]
        for one in basis:
            step = step - (one @ step) * one
        off.append(float(np.linalg.norm(step)))
        basis.append(step / off[-1])
    nodes, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return nodes[:, None, None], vectors[0, :, None, None] ** 2
