"""The query plan: a partition that asks the heavy symbols and samples the light ones.

Which light symbols are asked, and which are counted together, is drawn afresh for each check: no
order of symbols or columns can hide a drift from several checks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.plan import HEAD, LONGEST, QueryPlan, joined, outside_cells
from flwr_kld.kernel.arguments import integer, set_fields
from flwr_kld.reference import Reference

_HASHED = 8
"""Bins among which the symbols of one run of ranks are hashed."""
_CELLS_PER_RUN = 64
_WINDOW = 2.0
"""Light symbols asked out of each window of ranks; within it, at random."""
_STRATA = 8
"""Of the tail, by rank, to estimate the Monte-Carlo error."""


@dataclass(frozen=True)
class Partition:
    """Heavy symbols each in a cell, light ones sampled, the rest of the tail hashed into bins.

    Symbols with inclusion probability ``min(1, c Π(x)) = 1`` get a cell each; from the others,
    sampling proportional to Π picks as many more as the budget allows, weighted ``Π / inclusion``
    (Horvitz-Thompson), spread evenly over ranks and at random among neighbours; what is left of the
    tail is counted in bins of about equal mass, 8 for each run of neighbouring ranks, in one of
    which each symbol falls at random. If the budget covers Π's support, every symbol gets its cell.
    The last cells count what Π says is impossible, see `outside_cells`.

    Against iid draws at the same number of cells, the Monte-Carlo variance is 1.5 to 1.8 times
    smaller where ``P / Π`` is idiosyncratic and over 1,000 times where it is smooth in rank
    (``simulations/bench/query_plans.py``).

    Parameters
    ----------
    cells : int
        Budget, without the cells outside the reference; at least 16.
    """

    cells: int = 1000

    def __post_init__(self) -> None:
        set_fields(self, cells=integer("cells", self.cells, least=2 * _HASHED, most=LONGEST))

    def draw(self, reference: Reference, generator: np.random.Generator) -> QueryPlan:
        """Draw the cells of one check, of a table in each column."""
        if reference.is_table:
            columns = reference.columns.values()
            return joined(reference, [self.draw(column, generator) for column in columns])
        p = reference.probabilities
        order = np.argsort(-p, kind="stable")
        order = order[: np.count_nonzero(p)]
        covered = len(order) <= self.cells
        runs = max(self.cells // _CELLS_PER_RUN, 1)
        singles = self.cells - _HASHED * runs
        inclusion = np.ones(len(order)) if covered else _inclusion(p[order], singles)
        shuffled = _shuffled(inclusion, generator)
        order, inclusion = order[shuffled], inclusion[shuffled]
        asked = _systematic(inclusion, generator)
        tail = inclusion < 1
        stratum = np.where(tail, _run(p[order] * tail, _STRATA), HEAD)
        single, remainder = order[asked], order[~asked]
        near = _run(p[remainder], runs)
        remainder = remainder[np.argsort(near + generator.random(len(near)))]
        bins = _run(p[remainder], _HASHED * runs)
        kept_bins = np.flatnonzero(np.bincount(bins, minlength=_HASHED * runs))
        cell_of = np.empty(reference.domain.size, dtype=np.int32)
        cell_of[single] = np.arange(len(single))
        cell_of[remainder] = len(single) + np.searchsorted(kept_bins, bins)
        inside = len(single) + len(kept_bins)
        cells = outside_cells(reference, cell_of, inside)
        padding = cells - len(single)
        return QueryPlan(
            reference,
            cell_of,
            weight=np.concatenate([p[single] / inclusion[asked], np.zeros(padding)]),
            inclusion=np.concatenate([inclusion[asked], np.ones(padding)]),
            stratum=np.concatenate([stratum[asked], kept_bins, np.full(cells - inside, HEAD)]),
        )


def plan_to_pin(reference: Reference) -> str | None:
    """Return the fingerprint of what checks count by default; None where each draws its cells."""
    plan = Partition().draw(reference, np.random.default_rng(0))
    return None if plan.is_drawn else plan.fingerprint


def _inclusion(p: NDArray[np.float64], budget: int) -> NDArray[np.float64]:
    """Probabilities ``min(1, c p)`` that sum to `budget`; p is sorted downwards, shape [n]."""
    tail = np.cumsum(p[::-1])[::-1]
    left = budget - np.arange(len(p))
    # k symbols are certain once the k-th, at c = (budget - k) / tail mass, falls below 1.
    certain = int(np.argmax((left <= 0) | (left * p < tail)))
    inclusion = np.ones(len(p))
    if left[certain] <= 0:
        inclusion[certain:] = 0
    else:
        # the fraction of the tail first: budget / tail overflows if the tail is subnormal
        inclusion[certain:] = left[certain] * (p[certain:] / tail[certain])
    return inclusion


def _shuffled(inclusion: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Order symbols by rank, but at random within windows of the light ones; shape [n]."""
    # Symbols at equal distances would otherwise be asked together: one value of a table's last
    # column and no other.
    head = int(np.count_nonzero(inclusion == 1))  # sorted downwards: the first ones
    window = np.floor(np.cumsum(inclusion[head:]) / _WINDOW)
    tail = np.argsort(window + generator.random(len(window)))
    return np.concatenate([np.arange(head), head + tail])


def _run(mass: NDArray[np.float64], runs: int) -> NDArray[np.int64]:
    """Cut a sequence of masses into runs of about equal mass; shape [n], ascending."""
    upto = np.cumsum(mass)
    whole = upto[-1] if len(upto) and upto[-1] > 0 else 1.0
    return np.minimum((upto / whole * runs).astype(np.int64), runs - 1)


def _systematic(
    inclusion: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Pick symbol i with probability inclusion[i], a fixed number in all; shape [n]."""
    before = np.concatenate([[0.0], np.cumsum(inclusion)]) + generator.random()
    return np.diff(np.floor(before)) > 0
