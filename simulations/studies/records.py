"""Records of a cohort in simulation: whose they are, which are counted, and what clients answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.score import Floats
from flwr_kld.kernel.count import Scores
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.kernel.release import Release
from flwr_kld.query.noisy import ClientSums
from flwr_kld.query.plan import QueryPlan

Integers = NDArray[np.int64]
Table = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Records:
    """Cells of a cohort's records, one client's after the other's."""

    cells: Integers  # Shape [records]
    sizes: Integers  # Shape [clients]: how many each client has

    @cached_property
    def client(self) -> Integers:
        """Whose each record is, shape [records]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.sizes)

    def counts(self, cells: int) -> Integers:
        """Count every record in its cell, shape [cells]."""
        return np.bincount(self.cells, minlength=cells)

    def alike(self) -> float:
        """How many records are alike, over all clients."""
        cell = np.stack([self.client, self.cells])
        (client, _), often = np.unique(cell, axis=1, return_counts=True)
        pairs = np.bincount(client, often * (often - 1), self.clients)
        return float((pairs / np.maximum(self.sizes - 1, 1)).sum() + (self.sizes == 1).sum())

    def sums(self, score: Table) -> NDArray[np.float64]:
        """Add up a score of each cell over each client's records, shape [clients]."""
        summed = np.bincount(self.client, score[self.cells], self.clients)
        return np.asarray(summed, dtype=np.float64)

    def by_client(self, rng: np.random.Generator) -> tuple[Records, Records]:
        """Split the clients in two halves at random."""
        first = np.zeros(self.clients, dtype=bool)
        first[rng.permutation(self.clients)[: self.clients // 2]] = True
        return tuple(  # type: ignore[return-value]
            Records(self.cells[half[self.client]], self.sizes[half]) for half in (first, ~first)
        )

    def at_most(self, most: int, rng: np.random.Generator) -> Records:
        """Keep a uniform sample of so many records of each client who has more."""
        if not len(self.sizes) or self.sizes.max() <= most:
            return self
        order = np.lexsort((rng.random(len(self.cells)), self.client))
        start = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        kept = np.zeros(len(self.cells), dtype=bool)
        kept[order[np.arange(len(order)) - start < most]] = True
        return self._kept(kept)

    def _kept(self, which: NDArray[np.bool_]) -> Records:
        sizes = np.bincount(self.client[which], minlength=self.clients)
        return Records(self.cells[which], sizes)


def numbers(scores: Scores, records: Records) -> Floats:
    """Each client's numbers, shape [clients, 5], as `score_columns.numbers_of` has them."""
    s, o = (records.sums(table) for table in scores.tables)
    s = np.minimum(s, scores.ceiling)
    return np.stack([s, s**2, records.sizes, o, o**2], axis=1).astype(np.float64)


def answers(
    scores: Scores, records: Records, guarantee: Guarantee, rng: np.random.Generator
) -> Integers:
    """Sum all clients' answers in whole steps, shape [5], without noise."""
    counted = records.at_most(scores.most_records, rng)
    exact = numbers(scores, counted) / scores.units(guarantee)
    steps = np.floor(exact + rng.random(exact.shape)).astype(np.int64)
    return np.asarray(steps.sum(axis=0))


def released(
    plan: QueryPlan,
    records: Records,
    event: Release,
    rng: np.random.Generator,
    bits: BitSource,
) -> ClientSums:
    """Noise the sums of a cohort's answers to a plan with scores, as a release does."""
    if plan.scores is None:
        raise ValueError("a plan of counts has no sums over clients")
    (scores,) = plan.scores
    exact = answers(scores, records, event.guarantee, rng)
    steps = exact + sample(event.table, len(exact), bits)
    return ClientSums(steps, records.clients, event, plan, bits.private)
