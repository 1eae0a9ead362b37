"""Cells of a query in the words of their domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.query.plan import HEAD, QueryPlan


def only_symbol(plan: QueryPlan) -> NDArray[np.int64]:
    """Symbol of each cell that holds a single one, otherwise -1; shape [cells]."""
    symbol = np.full(plan.cells, -1, dtype=np.int64)
    symbol[plan.cell_of] = np.arange(len(plan.cell_of))
    symbol[plan.symbols_in != 1] = -1
    return symbol


def outside_name(plan: QueryPlan, cell: int, symbol: int) -> str:
    """Say what the records of a cell outside the reference are; `symbol` as in `cell_name`."""
    domain = plan.reference.domain
    way = int(domain.unlisted_way()[int(np.argmax(plan.cell_of == cell))])
    if way >= 0:
        return domain.unlisted[way]
    return domain.name_of(symbol) if symbol >= 0 else f"one of {plan.symbols_in[cell]:,} symbols"


def cell_name(plan: QueryPlan, cell: int, symbol: int) -> str:
    """Name a cell: its symbol, or what its symbols have in common.

    Parameters
    ----------
    symbol : int
        The cell's only symbol, or -1.
    """
    if plan.outside[cell]:
        return f"{outside_name(plan, cell, symbol)} (not in the reference)"
    if symbol >= 0:
        return plan.reference.domain.name_of(symbol)
    count = f"one of {plan.symbols_in[cell]:,}"
    each = plan.symbols_in[cell] / plan.mass[cell]
    rare = "rare symbols" if plan.stratum[cell] != HEAD else "symbols that were not asked by name"
    return f"{count} {rare}, each about 1 in {float(f'{each:.2g}'):,.0f}"
