"""One sentence about a column: what moved most in it, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from flwr_kld.domain.binned import Binned
from flwr_kld.inference.figures.cell_fractions import in_cells, noisy_fractions
from flwr_kld.inference.fraction_interval import (
    fraction_covariance,
    fraction_intervals,
    group_intervals,
)
from flwr_kld.kernel.arguments import real
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import QueryPlan
from flwr_kld.report.explanation.cells import only_symbol, outside_name

_NAMED = 2
"""Cells that a sentence names at most."""
_CUTS = 200
"""Edges of an ordered column at which a sentence may cut it."""
_ROUNDING = 1e-9
_POINTS, _DIGITS = 5.0, 3
"""Change, in percentage points, from which on no decimals are written; and the most of these."""


def sentence(
    name: str, noisy: NoisyCounts, *, level: float = 0.95, design_effect: float = 1.0
) -> str | None:
    """Say what moved most in a column, such as ``air_time: lower, 17 % → 24 % below 82 (22–26 %)``.

    Of numbers, the cut whose fraction changed by most standard deviations; of labels and of their
    combinations, the two that gained or lost most records. Intervals hold for all cuts or cells of
    the column at once.
    """
    level = real("level", level, above=0, below=1)
    design_effect = real("design_effect", design_effect, least=1)
    domain = noisy.plan.reference.domain
    if isinstance(domain, Binned):
        said = _of_numbers(noisy, domain, level, design_effect)
    else:
        said = ", ".join(_of_cells(noisy, level, design_effect))
    return f"{name}: {said}" if said else None


def _of_cells(noisy: NoisyCounts, level: float, design_effect: float) -> Iterator[str]:
    plan, share, p = noisy.plan, noisy.values / noisy.records, noisy.plan.mass
    low, high = fraction_intervals(noisy, level=level, design_effect=design_effect)
    away = np.where((p < low) | (p > high), np.abs(share - p), 0)
    symbols = only_symbol(plan)
    for cell in np.argsort(-away, kind="stable")[:_NAMED].tolist():
        if away[cell] > 0:
            numbers = (float(x[cell]) for x in (p, share, low, high))
            yield _change(*numbers, before=f"{_cell(plan, cell, int(symbols[cell]))} ")


def _of_numbers(noisy: NoisyCounts, domain: Binned, level: float, design_effect: float) -> str:
    plan, last = noisy.plan, len(domain.edges) - 1
    at = np.linspace(0, last, min(last + 1, _CUTS)).round().astype(int)
    symbols, cuts = np.arange(domain.size), at[:, None]
    below, above = symbols <= cuts, (symbols > cuts) & (symbols <= last + 1)
    weights = in_cells(plan, np.vstack([symbols > last + 1, below, above]))
    held = weights > 1 - _ROUNDING
    told = held.any(axis=1) & (held | (weights < _ROUNDING)).all(axis=1)
    groups = held[told]
    if not len(groups):
        return ""
    low, high = group_intervals(
        noisy, groups, level=1 - (1 - level) / len(groups), design_effect=design_effect
    )
    seen = noisy_fractions(noisy)
    expected, share = groups @ plan.mass, groups @ seen
    # Cuts are compared among the records that have a value: more missing ones move no number.
    missing = np.flatnonzero(told) == 0
    having = 1 - weights[0]
    among = np.where(missing, 0, expected / max(float(having @ plan.mass), _ROUNDING))
    rows = groups - among[:, None] * having
    variance = np.diag(fraction_covariance(noisy, rows, plan.mass, design_effect=design_effect))
    off = rows @ (seen - plan.mass)
    z = off / np.sqrt(np.maximum(variance, noisy.records**-2))
    moved = (expected < low) | (high < expected)
    gained = moved & (missing | ((z > 0) & (share > expected)))  # of two sides, the one that grew
    strength = np.abs(z) * (gained if gained.any() else moved)
    if not strength.any():
        return ""
    best = int(strength.argmax())
    numbers = [float(x[best]) for x in (expected, share, low, high)]
    group = int(np.flatnonzero(told)[best])
    if group == 0:
        return _change(*numbers, before="missing ")
    side, cut = divmod(group - 1, len(at))
    edge = repr(domain.edges[int(at[cut])]).removesuffix(".0")
    lower = (z[best] > 0) == (side == 0)
    before = "lower, " if lower else "higher, "
    return _change(*numbers, before=before, after=f" from {edge} up" if side else f" below {edge}")


def _cell(plan: QueryPlan, cell: int, symbol: int) -> str:
    if plan.outside[cell]:
        return outside_name(plan, cell, symbol)
    if symbol >= 0:
        return plan.reference.domain.name_of(symbol)
    return f"{plan.symbols_in[cell]:,} rare symbols"


def _change(
    expected: float, share: float, low: float, high: float, *, before: str, after: str = ""
) -> str:
    """Write ``17 % → 24 % (22–26 %)``, with as many digits as the change needs."""
    share = min(max(share, low), high)
    points = 100 * abs(share - expected)
    digits = 0 if points >= _POINTS else min(1 - math.floor(math.log10(max(points, 1e-9))), _DIGITS)
    old, new, least, most = (f"{100 * x:.{digits}f}" for x in (expected, share, low, high))
    return f"{before}{old} % → {new} %{after} ({least}–{most} %)"
