"""The paper's query plan: iid draws from the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.query.plan import HEAD, LONGEST, QueryPlan, joined, outside_cells
from flwr_kld.reference import Reference


@dataclass(frozen=True)
class MonteCarlo:
    """T symbols drawn iid from Π, with multiplicities (PRIEST-KLD, Algorithms 1-3, line 1)."""

    draws: int = 1000

    def __post_init__(self) -> None:
        keep(self, draws=whole("draws", self.draws, least=1, most=LONGEST))

    def draw(self, reference: Reference, generator: np.random.Generator) -> QueryPlan:
        """Draw the symbols of one check, of a table in each column."""
        if reference.is_table:
            columns = reference.columns.values()
            return joined(reference, [self.draw(column, generator) for column in columns])
        symbols, times = np.unique(reference.draw(self.draws, generator), return_counts=True)
        cell_of = np.full(reference.domain.size, len(symbols), dtype=np.int32)
        cell_of[symbols] = np.arange(len(symbols))
        others = int(len(symbols) < np.count_nonzero(reference.probabilities))
        cells = outside_cells(reference, cell_of, len(symbols) + others)
        weight = np.zeros(cells)
        weight[: len(symbols)] = times / self.draws
        return QueryPlan(
            reference,
            cell_of,
            weight,
            inclusion=np.ones(cells),
            stratum=np.full(cells, HEAD),
            draws=self.draws,
        )
