"""Cells of a query in the words of their domain, and a block pattern as a small picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.kernel.arguments import whole
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
    """Name a cell: its symbol, or what its symbols have in common."""
    if plan.outside[cell]:
        return f"{outside_name(plan, cell, symbol)} (not in the reference)"
    if symbol >= 0:
        return plan.reference.domain.name_of(symbol)
    count = f"one of {plan.symbols_in[cell]:,}"
    each = plan.symbols_in[cell] / plan.mass[cell]
    rare = "rare symbols" if plan.stratum[cell] != HEAD else "symbols that were not asked by name"
    return f"{count} {rare}, each about 1 in {float(f'{each:.2g}'):,.0f}"


def pattern_svg(symbol: int, *, side: int = 40) -> str:
    """Return an inline SVG of a symbol of `BlockPatterns`, in the text's own colour."""
    symbol, side = whole("symbol", symbol), whole("side", side, least=1, unit="pixels")
    domain = BlockPatterns()
    missing = domain.name_of(symbol) == "missing"
    ink = np.zeros((4, 4), dtype=np.bool_) if missing else ~domain.pattern(symbol)
    words = "no image of the expected form" if missing else _in_words(ink.tolist())
    blocks = "".join(f'<path d="M{x} {y}h1v1h-1z"/>' for y, x in np.argwhere(ink).tolist())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="-.2 -.2 4.4 4.4" '
        f'width="{side}" height="{side}" fill="currentColor" shape-rendering="crispEdges">'
        f"<title>{words}</title>"
        '<path d="M0 0h4v4h-4z" fill="none" stroke="currentColor" stroke-width=".15"/>'
        f"{blocks}</svg>"
    )


def _in_words(ink: list[list[bool]]) -> str:
    rows = [
        f"row {y}: " + ", ".join(str(x) for x, there in enumerate(row, 1) if there)
        for y, row in enumerate(ink, 1)
        if any(row)
    ]
    return "4 by 4 blocks, " + ("ink in " + "; ".join(rows) if rows else "no ink")
