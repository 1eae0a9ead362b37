"""How alike the records of a client are: the design effect, from numbers of alike records.

A cohort's counts vary more than those of as many independent records, because records of one client
hang together. Each client counts how many of its records are alike, in expectation as many as are
in the same cell as another of its own (`alike_records`). Beyond those that any two records of the
population are, they are alike because they are one client's. Proof note: ``docs/proofs/counts.md``.

`_ROUNDS` of a fixed point are enough: of 100 clients at a design effect of 3.39, twice as many
change nothing, half of them .0002. `_ALONE`, over the smallest fraction, is the largest r that is
tried: any makes a valid bound, larger ones none that is smaller by more than a percent. `_APART` is
a ratio of design effects that is told from 1, and from that of records all alike, and `_DIFFERENT`
the probability of two different records below which all are alike: they avoid divisions by 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.common.search import root
from flwr_kld.infer.estimators.score import Floats, in_blocks

if TYPE_CHECKING:
    from flwr_kld.ask.noisy import NoisyCounts

_ROUNDS = 4
_APART = 1.001
_DIFFERENT = 1e-6
_ALONE = 100.0


@dataclass(frozen=True)
class Spread:
    """How far the counts of a check spread, over independent records: the design effect. Public."""

    ratio: float  # By noise, it may be below 0
    noise: float  # Standard deviation of the noise in it


@dataclass(frozen=True)
class Clients:
    """How the records of a check are shared out among its clients, as far as it is public."""

    others: float  # Records of the same client beside a record, on average over the records
    single: int = 0  # Clients of one record, where it is known: it counts as alike to itself


def spread(counts: NoisyCounts, clients: Clients, within: NoisyCounts | None = None) -> Spread:
    """Estimate the design effect of one column of a check.

    With the counts `within` groups, which the cells distinguish: that of a group's records.
    """
    alike, noise = _of_client(counts, clients)
    others, part, of_group = clients.others, 1.0, 1.0
    if within is not None:
        part, of_group = _of_client(within, clients)[0], _of_anybody(within)[0]
        if min(part, of_group) < _DIFFERENT:
            return Spread(1.0, 0.0)
    same, error = _of_anybody(counts)
    effect = ratio = 1.0
    for _ in range(_ROUNDS):
        by_chance = effect * (1 - same) / counts.records  # a cohort's records are more alike
        shared = min(max(same - by_chance, 0.0) / of_group, 1.0)
        if 1 - shared < _DIFFERENT:
            return Spread(1.0, 0.0)
        ratio = 1 + others * part * (alike / part - shared) / (1 - shared)
        effect = min(max(ratio, 1.0), max(others + 1, 1.0))
    return Spread(ratio, others * math.hypot(noise, part * error / of_group) / (1 - shared))


def _of_client(counts: NoisyCounts, clients: Clients) -> tuple[float, float]:
    """Return how probably two records of one client are alike, and the noise in that."""
    several = max(counts.records - clients.single, 1.0)
    return (counts.alike[0] - clients.single) / several, counts.noise_in_alike / several


def _of_anybody(counts: NoisyCounts) -> tuple[float, float]:
    """Return how probably two records of the cohort are alike, and the noise in that."""
    y, v, n = counts.values.astype(np.float64), counts.noise.variance, counts.records
    same = max((float(y @ y) - len(y) * v) / n**2, 0.0)
    return same, math.sqrt(4 * v * same + 2 * len(y) * (v / n) ** 2) / n


@dataclass(frozen=True)
class DesignEffects:
    """By how much numbers of one column vary more than those of as many independent records."""

    average: float = 1.0  # Over its cells; 0 where nothing was sampled
    most: float = 1.0  # If all records of a client were alike
    doubt: float = 0.0  # By how much the average is more than likely: it is on the safe side

    def __post_init__(self) -> None:
        if self.average != 0 and not self.average >= 1:
            raise ValueError("a design effect is at least 1, or 0 where nothing was sampled")

    @classmethod
    def of(cls, spread: Spread, most: float) -> DesignEffects:
        """Estimate them: one standard deviation of noise above what is likely, at most `most`."""
        likely, safe = (
            min(max(x, 1.0), max(most, 1.0)) for x in (spread.ratio, spread.ratio + spread.noise)
        )
        return cls(safe, most, safe - likely)

    @property
    def likely(self) -> float:
        """The average itself."""
        return self.average - self.doubt

    @property
    def lump(self) -> float:
        """How many records come together if any: counts are negative binomial in lumps of these.

        Clients whose laws are drawn around one, each from the same Dirichlet law, have records of
        a rare symbol in lots; in lumps of this size, lots have the same mean and design effect.
        """
        effect, n = max(self.likely, 1.0), self.most
        if effect < _APART or effect > n / _APART:
            return effect
        concentration = (n - 1) / (effect - 1) - 1
        lot = n / (
            concentration
            * (scipy.special.digamma(concentration + n) - scipy.special.digamma(concentration))
        )

        def excess(k: float) -> float:
            return (effect - k) / math.log(effect / k) - lot

        if excess(1.0) >= 0:
            return 1.0
        return root(excess, 1.0, effect * (1 - 1e-9), within=1e-6)

    def of_part(self, part: float) -> DesignEffects:
        """Return the largest that a part of the records may have, if no others are alike."""
        average = min(1 + (self.average - 1) / min(part, 1.0), max(self.most, self.average))
        return replace(self, average=average)

    def of_shares(self, tested: Floats, cells_in: NDArray[np.int64], law: Floats) -> Floats:
        """Return the largest that groups of so many cells have if they hold what is tested.

        Of all laws of their cells, those that are even allow the most.
        """
        # Shapes: tested [..., groups], cells_in [groups].
        inside, outside = np.maximum(cells_in, 1), np.maximum(len(law) - cells_in, 1)

        def around_mean(r: Floats) -> Floats:
            r = r.reshape(-1, *(1,) * np.ndim(tested))
            held = tested / (1 + r * tested / inside)
            rest = (1 - tested) / (1 + r * (1 - tested) / outside)
            return np.divide(held * rest, held + rest, out=np.zeros_like(held), where=held > 0)

        return self._largest(tested * (1 - tested), law, around_mean)

    def of_groups(self, weights: Floats, law: Floats) -> Floats:
        """Return the largest that sums over the cells with these weights may have; shape [sums]."""
        # Shapes: weights [sums, cells].
        if self.average <= 1 or self.most <= 1:
            return np.full(len(weights), self.average)
        centred = weights - (weights @ law)[:, None]
        size = np.abs(centred).max(axis=1, keepdims=True, initial=0)
        centred = centred / np.where(size > 0, size, 1)
        squares = centred**2

        def around_mean(r: Floats) -> Floats:
            part = law / (1 + r[:, None] * law)
            return np.asarray(
                part @ squares.T - (part @ centred.T) ** 2 / part.sum(axis=1, keepdims=True)
            )

        return self._largest(around_mean(np.zeros(1))[0], law, around_mean)

    def of_rarest(self, law: Floats) -> Floats:
        """Return each cell's, if all that clients differ in is the rarest cells; shape [cells].

        Of all that go with the average one, this makes sums of squares over fractions the largest.
        """
        if self.most <= 1:
            return np.full(law.shape, self.average)
        order, variance = np.argsort(law, kind="stable"), law * (1 - law)
        before = np.cumsum(variance[order]) - variance[order]
        left = np.maximum(self.apart(law) - before, 0.0)
        part = np.ones_like(law)
        np.divide(left, variance[order], out=part, where=variance[order] > 0)
        effect = np.empty_like(law)
        effect[order] = 1 + (self.most - 1) * np.minimum(part, 1)
        return effect

    def apart(self, law: Floats) -> float:
        """Return the mean square of the distances of clients' laws from this one."""
        # The trace of the covariance that records of one client share.
        if self.most <= 1:
            return 0.0
        return (self.average - 1) / (self.most - 1) * (1 - float(law @ law))

    def _largest(
        self, variance: Floats, law: Floats, around_mean: Callable[[Floats], Floats]
    ) -> Floats:
        """Return the largest that go with the average one, of numbers w of each cell.

        Theorem (``docs/proofs/counts.md``): of the covariance S of a record's cell, a client's
        records share B with 0 <= B <= S, of which the average tells the trace t. The most of
        w' B w is the least over r >= 0 of (1 + r t) Σ a (w - k)², with a = p / (1 + r p) and k the
        mean of w by a: that sum is `around_mean`, of each of many r. Any r bounds it.
        """
        if self.average <= 1 or self.most <= 1:
            return np.full(np.shape(variance), self.average)
        shared, most = self.apart(law), variance
        for some in in_blocks(_penalties(law, shared), len(law)):
            tried = around_mean(some).T * (1 + some * shared)
            most = np.minimum(most, tried.min(axis=-1).T)
        # A number that does not vary has no design effect: what is as large as can be is safe.
        part = np.divide(most, variance, out=np.ones_like(most), where=variance > 0)
        return np.asarray(np.maximum(1 + (self.most - 1) * part, self.average))


def _penalties(law: Floats, shared: float) -> Floats:
    """Return the r that are tried: from where the trace binds nothing to where it binds alone."""
    held = law[law > 0]
    first, last = 0.1 / held.max(), _ALONE / max(min(held.min(), shared), _DIFFERENT**2)
    return np.geomspace(first, last, math.ceil(math.log2(last / first)) + 1)


INDEPENDENT = DesignEffects()
"""Of records that are drawn by themselves."""
