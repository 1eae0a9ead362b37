"""Populations of clients whose law over a plan's cells is known, and halves of cohorts from them.

Their records are alike within clients in three ways: not at all, by a Dirichlet law around the
population's, or as writers are who redraw real digits each in a hand of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.event import PrivacyEvent
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.privacy.sampler import sample
from flwr_kld.query.plan import QueryPlan
from flwr_kld.simulations.studies.hands import Hands

Counts = NDArray[np.int64]


class Cohorts(Protocol):
    """Where halves of cohorts come from."""

    @property
    def shares(self) -> Floats:
        """P of the population over the cells, shape [cells]."""
        ...

    def half(self, groups: int, rng: np.random.Generator) -> Counts:
        """Draw one half-cohort's counts, shape [cells, groups]."""
        ...


@dataclass(frozen=True, eq=False)
class Independent:
    """Records that are independent of each other.

    Parameters
    ----------
    shares : Floats
        P over the cells.
    records : int
        In a half.
    """

    shares: Floats
    records: int

    def half(self, groups: int, rng: np.random.Generator) -> Counts:
        """Draw one half-cohort's counts, shape [cells, groups]."""
        each = np.repeat(self.shares / groups, groups)
        return rng.multinomial(self.records, each).reshape(-1, groups)


@dataclass(frozen=True, eq=False)
class Clustered:
    """Clients whose laws are Dirichlet around P.

    Parameters
    ----------
    shares : Floats
        P over the cells.
    clients : int
        In a half.
    records : int
        Of a client: the mean of a geometric law, so that some have many.
    alike : float
        Concentration of the Dirichlet law; small for clients who differ much.
    """

    shares: Floats
    clients: int
    records: int
    alike: float

    def half(self, groups: int, rng: np.random.Generator) -> Counts:
        """Draw one half-cohort's counts, shape [cells, groups]: whole clients in groups."""
        laws = rng.standard_gamma(self.alike * self.shares, (self.clients, len(self.shares)))
        laws /= laws.sum(axis=1, keepdims=True)
        held = rng.multinomial(rng.geometric(1 / self.records, self.clients), laws)
        counts = np.zeros((groups, len(self.shares)), dtype=np.int64)
        np.add.at(counts, rng.integers(groups, size=self.clients), held)
        return counts.T


@dataclass(frozen=True, eq=False)
class Silos:
    """The same few clients at each check, with new records: records fall into groups.

    Parameters
    ----------
    laws : Floats
        Of each client, shape [clients, cells].
    records : int
        Of a client.
    """

    laws: Floats
    records: int

    @cached_property
    def shares(self) -> Floats:
        """P over the cells: of these very clients."""
        mean: Floats = self.laws.mean(axis=0)
        return mean

    def half(self, groups: int, rng: np.random.Generator) -> Counts:
        """Draw one half-cohort's counts, shape [cells, groups]."""
        each = np.repeat(self.laws / groups, groups, axis=1)
        drawn: Counts = rng.multinomial(self.records, each).sum(axis=0).reshape(-1, groups)
        return drawn


@dataclass(frozen=True, eq=False)
class Writers:
    """Clients who are writers; part of what they write may have drifted.

    Parameters
    ----------
    plan : QueryPlan
        Cells.
    usual, drifted : Hands
        Undrifted and drifted writers.
    part : float
        Of each client's records that is drifted, in [0, 1].
    clients, records : int
        In a half, and of a client.
    """

    plan: QueryPlan
    usual: Hands
    drifted: Hands
    part: float
    clients: int
    records: int

    @cached_property
    def shares(self) -> Floats:
        """P over the cells."""
        size = self.plan.reference.domain.size
        laws = self.usual.law(size), self.drifted.law(size)
        law = (1 - self.part) * laws[0] + self.part * laws[1]
        by_cell = np.bincount(self.plan.cell_of, law, self.plan.cells)
        return np.asarray(by_cell, dtype=np.float64)

    def half(self, groups: int, rng: np.random.Generator) -> Counts:
        """Draw one half-cohort's counts, shape [cells, groups]: whole clients in groups."""
        symbols = self._written(self.usual, rng)
        if self.part:
            other = self._written(self.drifted, rng)
            symbols = np.where(rng.random(symbols.shape) < self.part, other, symbols)
        place = self.plan.cell_of[symbols] * groups + rng.integers(groups, size=(len(symbols), 1))
        return np.bincount(place.reshape(-1), minlength=self.plan.cells * groups).reshape(
            -1, groups
        )

    def _written(self, hands: Hands, rng: np.random.Generator) -> NDArray[np.int64]:
        who = rng.integers(len(hands.size), size=self.clients)
        return hands.write(who, self.records, rng)


def published(counts: Counts, plan: QueryPlan, event: PrivacyEvent, bits: BitSource) -> NoisyCounts:
    """Noise one half's counts, shape [cells, groups], as a release does."""
    clear = counts.reshape(-1)
    noisy = clear + sample(event.table, len(clear), bits)
    exact = event.guarantee.adjacency is Adjacency.REPLACE_ONE
    records = float((clear if exact else noisy).sum())
    return NoisyCounts(noisy, max(records, 1.0), event, plan, bits.private)


def merged(counts: Counts, level_of: NDArray[np.int32]) -> Counts:
    """Add cells up by level, [cells, groups] to [levels, groups]."""
    total = np.zeros((int(level_of.max()) + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(total, level_of, counts)
    return total
