"""The checks of a table as a map: a row for each column, a field for each check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flwr_kld._extras import require
from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.column_report import ColumnReport
from flwr_kld.report.panels import CROWD, LIGHT, Theme, mark_missing
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

MOST = 60
"""Rows of a picture; of more columns, those that moved most."""
_HOTTEST = 3.0
"""Multiple of the threshold from which on fields look alike."""
_LIGHT_HEAT: Final = ("#eef2f7", "#a9c8e8", "#5b62b5", "#74103c")
_DARK_HEAT: Final = ("#212934", "#2c5f98", "#a882d8", "#ffb9c6")
"""From no divergence to the hottest, ever darker or ever lighter: it is read without its hue."""
_LONG, _LONG_NARROW = 26, 15


def rows_of(checks: Sequence[Point[Report]]) -> list[str]:
    """Names of the columns that a map shows: first those that drifted most often, then furthest."""
    drifts: dict[str, int] = {}
    furthest: dict[str, float] = {}
    for point in checks:
        for name, column in (point.report.columns if point.report else {}).items():
            drifts[name] = drifts.get(name, 0) + (column.outcome is Outcome.DRIFT)
            furthest[name] = max(furthest.get(name, 0.0), heat_of(column))
    return sorted(drifts, key=lambda name: (-drifts[name], -furthest[name], name))[:MOST]


def heat_of(column: ColumnReport) -> float:
    """Return the estimated divergence in multiples of the threshold, or in nats without one.

    Not a number where there is no estimate.
    """
    told = column.reading.told
    if told is None:
        return math.nan
    threshold = column.verdict.threshold if column.verdict else 1.0
    return max(told.value, 0.0) / threshold if threshold > 0 else math.nan


def draw_heat_map(
    axes: Any, checks: Sequence[Point[Report]], theme: Theme, *, narrow: bool
) -> None:
    """Draw the divergence of each column and check, and mark what was decided."""
    colours = require("matplotlib.colors", extra="plots")
    names = rows_of(checks)
    heat = np.full((len(names), len(checks)), np.nan)
    marks: dict[Outcome, list[tuple[int, int]]] = {Outcome.DRIFT: [], Outcome.INCONCLUSIVE: []}
    decided = False
    for at, point in enumerate(checks):
        for row, name in enumerate(names):
            column = point.report.columns.get(name) if point.report else None
            if column is None:
                continue
            heat[row, at] = heat_of(column)
            decided = decided or column.verdict is not None
            if column.outcome in marks:
                marks[column.outcome].append((point.number, row))
    known = heat[np.isfinite(heat)]
    highest = _HOTTEST if decided else max(float(known.max(initial=0.0)), 1e-3)
    ramp = _LIGHT_HEAT if theme is LIGHT else _DARK_HEAT
    number = [point.number for point in checks]
    edges = np.append(np.array(number) - 0.5, number[-1] + 0.5)
    field = axes.pcolormesh(
        edges, np.arange(len(names) + 1) - 0.5, np.ma.masked_invalid(heat), vmin=0, vmax=highest,
        cmap=colours.LinearSegmentedColormap.from_list("heat", ramp), edgecolors=theme.ground,
        linewidth=0.2 if len(checks) > CROWD else 1,
    )  # fmt: skip
    _mark(axes, marks, theme, crowded=len(checks) > CROWD)
    axes.set_ylim(len(names) - 0.5, -0.5)
    longest = _LONG_NARROW if narrow else _LONG
    axes.set_yticks(range(len(names)), [_short(name, longest) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    missing = [point for point in checks if point.report is None]
    mark_missing(axes, missing, "failed: no number", theme)
    _scale(axes, field, highest, theme, decided=decided, narrow=narrow)


def _mark(
    axes: Any, marks: dict[Outcome, list[tuple[int, int]]], theme: Theme, *, crowded: bool
) -> None:
    """Mark drifts and open decisions on their fields."""
    looks = {
        Outcome.DRIFT: {"marker": "D", "color": theme.alarm, "markeredgecolor": theme.ground},
        Outcome.INCONCLUSIVE: {
            "marker": "o", "color": theme.ground, "markeredgecolor": theme.faint,
        },
    }  # fmt: skip
    for outcome, places in marks.items():
        if places:
            axes.plot(
                *zip(*places, strict=True), linestyle="none", markersize=2.5 if crowded else 5,
                markeredgewidth=0.3 if crowded else 0.8, label=str(outcome), **looks[outcome],
            )  # fmt: skip


def _scale(
    axes: Any, field: Any, highest: float, theme: Theme, *, decided: bool, narrow: bool
) -> None:
    """Draw the scale of colours beside the map."""
    bar = axes.figure.colorbar(field, ax=axes, pad=0.02, fraction=0.06 if narrow else 0.03)
    bar.outline.set_visible(False)
    if decided:
        bar.set_ticks([0, 1, 2, highest], labels=["0", "1", "2", f"≥ {highest:g}"])
    bar.set_label("D / threshold" if decided else "D  [nats]", color=theme.ink)
    bar.ax.tick_params(color=theme.faint, labelcolor=theme.ink)


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
