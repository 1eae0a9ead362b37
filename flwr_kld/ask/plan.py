"""One drawn query: disjoint cells of the domain and the weights estimators need.

Cells cover the whole domain and never overlap, so each record is counted exactly once and the
sensitivity of the count vector does not depend on the plan (PRIEST-KLD draws symbols with
repetition; here a repeated symbol is asked once and weighted).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.period import Period
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.common.canonical_bytes import inflated
from flwr_kld.kernel.promise import Allotment
from flwr_kld.kernel.vector import Layout
from flwr_kld.reference import Reference
from flwr_kld.table.base import Domain

LONGEST = 1 << 24
"""Counts that a client makes at most, 64 MB: its memory must not depend on a server."""

HEAD = -1
"""Stratum of cells that are asked for certain, and of the 'everything else' cell."""


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """A public partition of the domain into C cells, with the weights that estimators need."""

    # Of a table, each column is partitioned, and its cells follow those of the column before.
    #
    # Weights are unbiased: ``E Σ_c weight[c] f(r_c) = Σ_x Π(x) f(r_x)`` over the plan's own draws,
    # where ``r = P / Π``.

    reference: Reference  # Π
    cell_of: NDArray[np.int32]  # Shape [domain.size], in 0..C-1: the cell that counts each symbol
    # Shape [C]: weight of a cell's score; 0 for cells that hold many symbols (remainders of tail
    # bins, everything else) or none that Π has, which are counted but not scored
    weight: NDArray[np.float64]
    # Shape [C]: probability that the plan asks this symbol by itself; 1 where certain
    inclusion: NDArray[np.float64]
    # Shape [C]: `HEAD`, or in the tail the eighth (0, 1, …) by rank that a symbol was sampled from,
    # or the bin that counts those that were not
    stratum: NDArray[np.int64]
    period: Period | None = None  # Of the records that are counted; None for all
    # How finely counts are released, and whether alike records are counted; by default in whole
    # counts, and not
    allotment: Allotment = None  # type: ignore[assignment]
    unlisted_labels: UnlistedLabels | None = None  # Asked for instead of counts

    def __post_init__(self) -> None:
        # What does not fit is refused
        object.__setattr__(self, "allotment", self.layout.allotment)

    @property
    def domain(self) -> Domain:
        """What is read of records: the reference's symbols, or a column's unlisted labels."""
        own = self.reference.domain
        return own if self.unlisted_labels is None else self.unlisted_labels.over(own)

    @property
    def cells(self) -> int:
        """C, the number of cells."""
        return len(self.weight)

    @cached_property
    def layout(self) -> Layout:
        """What a client answers with."""
        cells = cells_of_columns(self.cell_of, self.domain.sizes, self.cells)
        return Layout(cells, self.allotment, self.period is not None)

    @property
    def length(self) -> int:
        """Length of a client's vector."""
        return self.layout.length

    @property
    def parts(self) -> tuple[slice, ...]:
        """Cells of each column; all of them unless the plan is of a table."""
        return self.layout.parts

    @cached_property
    def columns(self) -> dict[str, QueryPlan]:
        """Plan of each column by name, over its own reference; a single one is this plan."""
        references = self.reference.columns
        if not self.reference.is_table:
            return dict.fromkeys(references, self)
        parts = zip(references.items(), self.reference.domain.parts, self.parts, strict=True)
        allotted = self.allotment
        return {
            name: QueryPlan(
                reference,
                self.cell_of[own] - np.int32(cells.start),
                self.weight[cells],
                self.inclusion[cells],
                self.stratum[cells],
                self.period,
                Allotment((allotted.counts[i],), allotted.alike),
            )
            for i, ((name, reference), own, cells) in enumerate(parts)
        }

    def allotted(self, allotment: Allotment) -> QueryPlan:
        """Return the same cells, whose counts are released so."""
        return replace(self, allotment=allotment)

    def of(self, period: Period | None) -> QueryPlan:
        """Return the same cells, counted over the records of a period."""
        return replace(self, period=period)

    @cached_property
    def mass(self) -> NDArray[np.float64]:
        """Π of each cell, shape [C]."""
        p = self.reference.probabilities
        return np.asarray(np.bincount(self.cell_of, p, self.cells), dtype=np.float64)

    @cached_property
    def outside(self) -> NDArray[np.bool_]:
        """Which cells hold only symbols that Π says are impossible, shape [C]."""
        return np.asarray(self.mass == 0)

    @cached_property
    def symbols_in(self) -> NDArray[np.int64]:
        """Number of symbols in each cell, shape [C]."""
        return np.bincount(self.cell_of, minlength=self.cells)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of what is counted: `plan_fingerprint`."""
        return plan_fingerprint(self.domain.fingerprint, self.cell_of)

    @property
    def is_drawn(self) -> bool:
        """Whether another check asks other cells: of many symbols some are drawn."""
        return bool((self.inclusion < 1).any())

    @cached_property
    def wire(self) -> bytes:
        """The cells as clients receive them: ``cell_of``, little-endian int32, deflated."""
        return zlib.compress(self.cell_of.astype("<i4").tobytes())


def each_symbol(domain: Domain) -> QueryPlan:
    """Return a plan that counts each symbol of a domain by itself, and compares with nothing."""
    flat = Reference.from_counts(domain, np.ones(domain.size))
    one, cells = np.ones(domain.size), np.arange(domain.size, dtype=np.int32)
    return QueryPlan(flat, cells, flat.probabilities, one, np.full(domain.size, HEAD))


def joined(reference: Reference, columns: Sequence[QueryPlan]) -> QueryPlan:
    """Join the plans of a table's columns to one of the table."""
    starts = np.cumsum([0, *(plan.cells for plan in columns)])[:-1].astype(np.int32)
    cell_of = [plan.cell_of + start for plan, start in zip(columns, starts, strict=True)]
    return QueryPlan(
        reference,
        np.concatenate(cell_of),
        np.concatenate([plan.weight for plan in columns]),
        np.concatenate([plan.inclusion for plan in columns]),
        np.concatenate([plan.stratum for plan in columns]),
    )


def plan_for_labels(reference: Reference, asked: UnlistedLabels) -> QueryPlan:
    """Ask for the unlisted labels of a column: one cell, unweighted."""
    cell, none, one = np.zeros(1, np.int32), np.zeros(1), np.ones(1)
    return QueryPlan(reference, cell, none, one, np.full(1, HEAD), unlisted_labels=asked)


def cells_of_columns(
    cell_of: NDArray[np.int32], sizes: tuple[int, ...], cells: int
) -> tuple[int, ...]:
    """Return how many cells each column of a table has, which follow those of the column before."""
    # If two columns shared a cell, a record would count twice in it: more than the noise hides.
    if len(sizes) == 1:
        return (cells,)
    starts = np.cumsum([0, *sizes])[:-1]
    lowest, ends = np.minimum.reduceat(cell_of, starts), np.maximum.reduceat(cell_of, starts) + 1
    before = np.concatenate([[0], ends[:-1]])
    if (lowest != before).any() or ends[-1] != cells:
        raise ValueError("the cells of each column must follow those of the column before")
    return tuple((ends - before).tolist())


def outside_cells(reference: Reference, cell_of: NDArray[np.int32], inside: int) -> int:
    """Give the symbols that Π says are impossible cells of their own, after those of the others."""
    # One cell for each name in `Domain.unlisted`, and one for symbols that are listed
    # but have no mass. So what a record outside the reference *is* can be told, with few cells.
    impossible = reference.probabilities == 0
    names, cell = np.unique(reference.domain.unlisted_index()[impossible], return_inverse=True)
    cell_of[impossible] = inside + cell
    return inside + len(names)


def cells_by_symbol(reference: Reference) -> NDArray[np.int32]:
    """Give each symbol of one column that Π has a cell, in the domain's order; then the others."""
    cell_of = np.zeros(reference.domain.size, dtype=np.int32)
    possible = np.flatnonzero(reference.probabilities)
    cell_of[possible] = np.arange(len(possible))
    outside_cells(reference, cell_of, len(possible))
    return cell_of


def plan_fingerprint(domain: str, cell_of: NDArray[np.int32]) -> str:
    """SHA-256 (hex) of a domain's fingerprint, and of which of its symbols are counted together.

    Both sides compute it. Cells are numbered by their first symbol, so that it does not depend on
    their order, nor on what counts are compared with.
    """
    first = np.full(int(cell_of.max()) + 1, len(cell_of))
    first[cell_of[::-1]] = np.arange(len(cell_of))[::-1]  # of what is assigned twice, the last
    numbered = np.searchsorted(np.sort(first), first)[cell_of]
    digest = hashlib.sha256(f"flwr-kld plan 1\n{domain}\n".encode())
    digest.update(numbered.astype("<i4").tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=4)
def cells_from_wire(
    wire: bytes, domain: Domain, cells: tuple[int, ...], fingerprint: str
) -> NDArray[np.int32]:
    """Read ``QueryPlan.wire`` on the client and hold it against the plan's fingerprint."""
    # `cells` are the cells of each column of the domain.
    sizes, domain_size, total = domain.sizes, sum(domain.sizes), sum(cells)
    if total > domain_size:  # counting would take memory for cells that are empty
        raise ValueError("the query plan has more cells than the domain has symbols")
    one_each = "the query plan does not assign a cell to each symbol of the domain"
    raw = inflated(wire, 4 * domain_size, one_each)  # never more than the domain holds
    cell_of = np.frombuffer(raw, dtype="<i4").astype(np.int32)
    if cell_of.min() < 0 or cell_of.max() >= total:
        raise ValueError("the query plan names a cell that it does not have")
    if cells_of_columns(cell_of, sizes, total) != cells:
        raise ValueError("the query plan has another number of cells in a column than it says")
    if plan_fingerprint(domain.fingerprint, cell_of) != fingerprint:
        raise ValueError("the query plan does not match its fingerprint")
    cell_of.setflags(write=False)
    return cell_of
