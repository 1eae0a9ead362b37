"""The fractions of a column's cells, few enough for a picture, with their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.binned import Binned
from flwr_kld.kernel.arguments import real
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.report.explanation.cells import cell_name, only_symbol

MOST = 24
"""Bars of a picture."""


@dataclass(frozen=True)
class Histogram:
    """Fractions of the records by cell, in the domain's order. Everything in it is public."""

    # The cells in the domain's words, such as ``"[82, 100)"``. Of more than `MOST` cells,
    # neighbouring bins are one bar, and so are the labels that moved least.
    names: tuple[str, ...]
    # Fractions that the reference expects, and estimated ones, in [0, 1]
    reference: tuple[float, ...]
    clients: tuple[float, ...]
    deviation: tuple[float, ...]  # Standard deviation of each estimate, by sampling and noise

    @property
    def bars(self) -> Iterator[tuple[str, float, float, float]]:
        """Name, the reference's fraction, the clients' fraction and its deviation of each bar."""
        return zip(self.names, self.reference, self.clients, self.deviation, strict=True)


def histogram(noisy: NoisyCounts, *, design_effect: float = 1.0) -> Histogram:
    """Estimate the fractions of a column's cells."""
    design_effect = real("design_effect", design_effect, least=1)
    plan, total = noisy.plan, noisy.records
    bars = list(_bars(noisy))
    share, expected = (
        np.array([float(of_cells[cells].sum()) for cells, _ in bars])
        for of_cells in (noisy.values / total, plan.mass)
    )
    share, cells = np.clip(share, 0.0, 1.0), np.array([len(cells) for cells, _ in bars])
    noise = cells.astype(np.float64)
    if noisy.event.guarantee.adjacency is Adjacency.ADD_REMOVE:  # N is the sum of the noisy counts
        noise += plan.cells * share**2 - 2 * cells * share
    variance = design_effect * share * (1 - share) / total
    variance += noisy.noise.variance / total**2 * np.maximum(noise, 0)
    return Histogram(
        tuple(name for _, name in bars),
        tuple(expected.tolist()),
        tuple(share.tolist()),
        tuple(np.sqrt(variance).tolist()),
    )


def _bars(noisy: NoisyCounts) -> Iterator[tuple[NDArray[np.int64], str]]:
    """Yield the cells of each bar and its name, in the order of their first symbols."""
    plan, symbols = noisy.plan, only_symbol(noisy.plan)
    first = np.full(plan.cells, len(plan.cell_of))
    np.minimum.at(first, plan.cell_of, np.arange(len(plan.cell_of)))
    cells = np.argsort(first, kind="stable")
    least = cells[:0]
    if plan.cells <= MOST:
        bars = np.split(cells, plan.cells)
    elif isinstance(plan.reference.domain, Binned):
        bars = [*np.array_split(cells[:-1], MOST - 1), cells[-1:]]  # the last one is 'missing'
    else:
        moved = np.abs(noisy.values / noisy.records - plan.mass)[cells]
        order = np.argsort(-moved, kind="stable")
        least = cells[order[MOST - 1 :]]
        bars = np.split(cells[np.sort(order[: MOST - 1])], MOST - 1)
    for bar in bars:
        ends = dict.fromkeys((int(bar[0]), int(bar[-1])))
        yield bar, " … ".join(cell_name(plan, cell, int(symbols[cell])) for cell in ends)
    if len(least):
        yield least, f"{len(least):,} others"
