"""Explains what changed in a column: histograms, mass outside the reference, what moved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import HEAD, QueryPlan, cells_by_symbol
from flwr_kld.infer.allowance import SHARE, fraction_limits
from flwr_kld.infer.cell_fractions import as_law, in_cells, noisy_fractions
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.infer.fraction_interval import (
    LEVEL,
    fraction_intervals,
    group_intervals,
    sum_intervals,
    weighted_variance,
)
from flwr_kld.infer.outside import OutsideCell, OutsideFraction
from flwr_kld.kernel.arguments import finite
from flwr_kld.report.column import CellCounts, Histogram, Move
from flwr_kld.table.binned import Binned
from flwr_kld.table.blind import MOST_UNLISTED


def only_symbol(plan: QueryPlan) -> NDArray[np.int64]:
    """Symbol of each cell that holds a single one, otherwise -1; shape [cells]."""
    symbol = np.full(plan.cells, -1, dtype=np.int64)
    symbol[plan.cell_of] = np.arange(len(plan.cell_of))
    symbol[plan.symbols_in != 1] = -1
    return symbol


def outside_name(plan: QueryPlan, cell: int) -> str:
    """Say what the records of a cell outside the reference are."""
    domain, held = plan.reference.domain, plan.symbols_in[cell]
    index = int(domain.unlisted_index()[int(np.argmax(plan.cell_of == cell))])
    if index >= 0:
        return domain.unlisted[index]
    names = [domain.name_of(own) for own in np.flatnonzero(plan.cell_of == cell)[[0, -1]].tolist()]
    few = " or ".join(dict.fromkeys(names))
    return f"one of {held:,} symbols, such as {few}" if held > len(names) else few


def cell_name(plan: QueryPlan, cell: int, symbol: int) -> str:
    """Name a cell: its symbol, or what its symbols have in common."""
    if plan.outside[cell]:
        return f"{outside_name(plan, cell)} (not in the reference)"
    if symbol >= 0:
        return plan.reference.domain.name_of(symbol)
    count = f"one of {plan.symbols_in[cell]:,}"
    each = plan.symbols_in[cell] / plan.mass[cell]
    rare = "rare symbols" if plan.stratum[cell] != HEAD else "symbols that were not asked by name"
    return f"{count} {rare}, each about 1 in {float(f'{each:.2g}'):,.0f}"


MOST = 25
"""Bars of a picture: the hours of a day, and 'missing'."""
_KEPT = 2000
"""Counts of a column that a report keeps, at most."""


def histogram(noisy: NoisyCounts, effects: DesignEffects = INDEPENDENT) -> Histogram:
    """Estimate the fractions of a column's cells."""
    plan, seen, bars = noisy.plan, noisy_fractions(noisy), list(_bars(noisy))
    groups = np.zeros((len(bars), plan.cells), dtype=np.bool_)
    for row, (cells, _) in zip(groups, bars, strict=True):
        row[cells] = True
    # All at once, and whichever of the cells are picked for what they show
    level = 1 - (1 - LEVEL) / plan.cells
    low, high = group_intervals(noisy, groups, level=level, effects=effects)
    return Histogram(
        tuple(name for _, name in bars),
        tuple((groups @ plan.mass).tolist()),
        tuple(np.clip(groups @ seen, low, high).tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
    )


def cell_counts(
    noisy: NoisyCounts, design_effect: float, draws: Literal["client", "record"]
) -> CellCounts | None:
    """Return a column's counts by symbol; None if symbols that the reference has share cells."""
    plan = noisy.plan
    if not plan.reference.probabilities.any() or plan.cells > _KEPT:
        return None
    own = cells_by_symbol(plan.reference)
    cells = np.zeros(int(own.max()) + 1, dtype=np.int64)
    cells[own] = plan.cell_of
    if len(cells) != plan.cells or (cells[own] != plan.cell_of).any():
        return None
    values = tuple(noisy.values[cells].tolist())
    effect = design_effect if noisy.alike or draws == "record" else None
    return CellCounts(values, math.sqrt(noisy.noise.variance), effect, draws)


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


def outside_fraction(
    counts: NoisyCounts, effects: DesignEffects = INDEPENDENT
) -> OutsideFraction | None:
    """Estimate the fraction of records where Π is 0, and say what they are."""
    plan, seen = counts.plan, noisy_fractions(counts)
    cells = np.flatnonzero(plan.outside)
    if not len(cells):
        return None
    law = as_law(seen, plan.mass)

    def estimate(which: list[int]) -> tuple[float, float]:
        weights = np.isin(np.arange(plan.cells), which)[None].astype(np.float64)
        effect = effects.of_groups(weights, law)
        (variance,) = weighted_variance(counts, weights, law, design_effect=effect)
        return float(np.clip(weights[0] @ seen, 0, 1)), math.sqrt(max(variance, 0.0))

    kinds = [OutsideCell(outside_name(plan, c), *estimate([c])) for c in cells.tolist()]
    kinds.sort(key=lambda kind: -kind.share)
    return OutsideFraction(*estimate(cells.tolist()), tuple(kinds))


_MOST_NAMES = 2
"""Cells that a sentence names at most."""

_CUTS = 200
"""Edges of an ordered column at which a sentence may cut it."""

_ROUNDING = 1e-9


def moves(
    noisy: NoisyCounts,
    *,
    effects: DesignEffects = INDEPENDENT,
    level: float = 0.95,
    unit: str = "",
) -> tuple[Move, ...]:
    """Return what moved most in a column.

    Of numbers, the cut whose fraction changed by most standard deviations; of labels and of their
    combinations, the two that gained or lost most records. Intervals hold for all cuts or cells of
    the column at once; so do limits of the law that a reference is a sample of, with a `SHARE` of
    what may err.
    """
    level = finite("level", level, above=0, below=1)
    domain, of_numbers = noisy.plan.reference.domain, None
    if isinstance(domain, Binned):
        of_numbers = _of_numbers(noisy, domain, level, effects, unit)
    # Numbers below and above the reference's may share a cell: no cut tells them apart.
    return tuple(_of_cells(noisy, level, effects)) if of_numbers is None else (of_numbers,)


def unlisted(noisy: NoisyCounts, *, effects: DesignEffects, level: float) -> float | None:
    """Return the fraction of the records that are unlisted, if nearly all surely are."""
    domain = noisy.plan.reference.domain
    listed = domain.unlisted_index() < 0
    if domain.joins or not listed.any():
        return None
    others = in_cells(noisy.plan, ~listed[None]) == 1
    (low,), _ = group_intervals(noisy, others, level=level, effects=effects)
    return float(others[0] @ noisy_fractions(noisy)) if low > MOST_UNLISTED else None


def _of_cells(noisy: NoisyCounts, level: float, effects: DesignEffects) -> Iterator[Move]:
    plan, share, p = noisy.plan, noisy.values / noisy.records, noisy.plan.mass
    error = 1 - level
    low, high = fraction_intervals(noisy, level=1 - (1 - SHARE) * error, effects=effects, usual=p)
    if ((low <= p) & (p <= high)).all():
        return
    fewest, most = fraction_limits(plan, level=1 - SHARE * error / len(plan.cell_of))
    away = np.where((most < low) | (fewest > high), np.abs(share - p), 0)
    symbols = only_symbol(plan)
    for cell in np.argsort(-away, kind="stable")[:_MOST_NAMES].tolist():
        if away[cell] > 0:
            numbers = (float(x[cell]) for x in (p, share, low, high, fewest, most))
            name = _cell(plan, cell, int(symbols[cell]))
            yield _move(name, *numbers, unknown=bool(plan.outside[cell]))


def _of_numbers(
    noisy: NoisyCounts, domain: Binned, level: float, effects: DesignEffects, unit: str
) -> Move | None:
    plan, last = noisy.plan, len(domain.edges) - 1
    at = np.linspace(0, last, min(last + 1, _CUTS)).round().astype(int)
    symbols, cuts = np.arange(domain.size), at[:, None]
    weights = in_cells(plan, np.vstack([symbols > last + 1, symbols <= cuts]))
    having = 1 - weights[0]
    held, none = weights > 1 - _ROUNDING, weights < _ROUNDING
    above = none[1:] & (having > 1 - _ROUNDING)
    nothing = weights[1:] > having - _ROUNDING
    whole = np.concatenate([(held | none).all(axis=1), (above | nothing).all(axis=1)])
    # What is above a cut is all that has a value, less what is below
    of_cells = np.column_stack([noisy.values, np.ones(plan.cells), plan.mass])
    sums = np.greater(weights, 1 - _ROUNDING, out=weights) @ of_cells
    sums = np.vstack([sums, (having > 1 - _ROUNDING) @ of_cells - sums[1:]])
    resolved = np.flatnonzero(whole & (sums[:, 1] > 0))
    if not len(resolved):
        return None
    each = (1 - level) / len(resolved)
    own, sizes, expected = sums[resolved].T
    low, high = sum_intervals(
        noisy, own, sizes, level=1 - (1 - SHARE) * each, effects=effects, usual=expected
    )
    apart = (expected < low) | (high < expected)
    if not apart.any():
        return None
    resolved, expected, low, high = resolved[apart], expected[apart], low[apart], high[apart]
    groups = np.vstack([held, above])[resolved].astype(np.float64)
    fewest, most = fraction_limits(plan, groups, level=1 - SHARE * each)
    # All records together are more than 1 by rounding, and no limit is.
    moved = (most < low - _ROUNDING) | (high + _ROUNDING < fewest)
    if not moved.any():
        return None
    seen = noisy_fractions(noisy)
    share = groups @ seen
    # Cuts are compared among the records that have a value: more missing ones move no number.
    missing = resolved == 0
    among = np.where(missing, 0, expected / max(float(having @ plan.mass), _ROUNDING))
    rows = groups - among[:, None] * having
    design_effect = effects.of_groups(rows, as_law(seen, plan.mass))
    variance = weighted_variance(noisy, rows, plan.mass, design_effect=design_effect)
    off = rows @ (seen - plan.mass)
    z = off / np.sqrt(np.maximum(variance, noisy.records**-2))
    gained = moved & (missing | ((z > 0) & (share > expected)))  # of two sides, the one that grew
    strength = np.abs(z) * (gained if gained.any() else moved)
    if not strength.any():
        return None
    best = int(strength.argmax())
    numbers = [float(x[best]) for x in (expected, share, low, high, fewest, most)]
    group = int(resolved[best])
    if group == 0:
        return _move("missing", *numbers, unknown=bool(expected[best] == 0))
    side, cut = divmod(group - 1, len(at))
    edge = repr(domain.edges[int(at[cut])]).removesuffix(".0") + (f" {unit}" if unit else "")
    return _move(f"{edge} and over" if side else f"below {edge}", *numbers)


def _cell(plan: QueryPlan, cell: int, symbol: int) -> str:
    if plan.outside[cell]:
        return outside_name(plan, cell)
    if symbol >= 0:
        return plan.reference.domain.name_of(symbol)
    return f"{plan.symbols_in[cell]:,} rare symbols"


def _move(
    name: str,
    expected: float,
    share: float,
    low: float,
    high: float,
    fewest: float,
    most: float,
    *,
    unknown: bool = False,
) -> Move:
    least = max(low - most, fewest - high)
    return Move(name, expected, min(max(share, low), high), low, high, least, unknown)
