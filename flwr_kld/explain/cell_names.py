"""Cells of a query in the words of their domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.query import HEAD, QueryPlan


def only_symbol(plan: QueryPlan) -> NDArray[np.int64]:
    """Symbol of each cell that holds a single one, otherwise -1; shape [cells]."""
    symbol = np.full(plan.cells, -1, dtype=np.int64)
    symbol[plan.cell_of] = np.arange(len(plan.cell_of))
    symbol[plan.symbols_in != 1] = -1
    return symbol


def cell_name(plan: QueryPlan, cell: int, symbol: int) -> str:
    """Name a cell: its symbol, or what its symbols have in common.

    Parameters
    ----------
    symbol : int
        The cell's only symbol, or -1.
    """
    possible = plan.mass[cell] > 0
    if symbol >= 0:
        name = plan.reference.domain.name_of(symbol)
        return name if possible else f"{name} (not in the reference)"
    count = f"one of {plan.symbols_in[cell]:,}"
    if not possible:
        return f"{count} symbols that are not in the reference"
    each = plan.symbols_in[cell] / plan.mass[cell]
    rare = "rare symbols" if plan.stratum[cell] != HEAD else "symbols that were not asked by name"
    return f"{count} {rare}, each about 1 in {float(f'{each:.2g}'):,.0f}"
