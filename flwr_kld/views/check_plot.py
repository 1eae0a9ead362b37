"""Plots of checks: each against the threshold, and a table's columns as a heat map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.extras import require
from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.column import ColumnReport, Estimated
from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.report.words import shortened
from flwr_kld.views.panels import CROWD, LIGHT, Theme, mark, mark_missing, step

_LIMITS_ROOM = 1.5
"""Height that upper limits may add to a plot, as a factor; higher ones leave it."""

_Reports = Sequence[tuple[int, Report]]


def draw_checks(
    axes: Any, checks: Sequence[Point[Report]], theme: Theme, drift_from: int | None
) -> None:
    """Draw estimates, limits, threshold, alarms and truth, in nats; the population's in front."""
    reports = [(c.number, c.report) for c in checks if c.report]
    _draw_estimates(axes, checks, theme)
    _draw_truth(axes, checks, theme)
    _draw_lower_bounds(axes, reports, theme, small=len(checks) > CROWD)
    _draw_threshold(axes, reports, theme)
    _draw_cohorts(axes, checks, theme)
    low, high = axes.get_ylim()
    upper = max((r.upper_limit for _, r in reports if r.upper_limit is not None), default=0.0)
    low, high = min(0.0, low), max(high, min(1.05 * upper, _LIMITS_ROOM * high), 1e-3)
    _draw_upper_limits(axes, reports, theme)
    axes.set_ylim(low, high + 0.08 * (high - low))  # room for the alarms
    _draw_alarms(axes, checks, reports, theme)
    if drift_from is not None:
        axes.axvline(drift_from - 0.5, color=theme.faint, linestyle="--", linewidth=1)
        axes.annotate(
            " drift injected", (drift_from - 0.5, 0.02), xycoords=("data", "axes fraction"),
            color=theme.faint,
        )  # fmt: skip
    axes.set_ylabel("KL(reference ‖ clients)  [nats]")


def _draw_truth(axes: Any, checks: Sequence[Point[Report]], theme: Theme) -> None:
    known = [(c.number, c.population_truth) for c in checks if c.population_truth is not None]
    if known:
        axes.plot(
            *zip(*known, strict=True), color=theme.truth, marker="_", markersize=12,
            markeredgewidth=2.5, linewidth=1, linestyle=":", label="population: truth",
        )  # fmt: skip


def _draw_estimates(axes: Any, checks: Sequence[Point[Report]], theme: Theme) -> None:
    """Draw the population's estimates with their error, as bars or as a band."""
    number = np.array([c.number for c in checks])
    estimate, deviation = _values(
        c.report.reading.of_population if c.report else None for c in checks
    )
    if np.isnan(estimate).all():
        return
    crowded = len(checks) > CROWD
    axes.plot(
        number, estimate, color=theme.estimate, linewidth=1.2, zorder=3, marker="o",
        markersize=2 if crowded else 4.5, label="population: estimate ± 2 s.d.",
    )  # fmt: skip
    low, high = estimate - 2 * deviation, estimate + 2 * deviation
    if crowded:
        axes.fill_between(number, low, high, color=theme.estimate, alpha=0.25, linewidth=0)
    else:
        axes.vlines(number, low, high, color=theme.estimate, linewidth=1.5, zorder=3)


def _draw_cohorts(axes: Any, checks: Sequence[Point[Report]], theme: Theme) -> None:
    number = [c.number for c in checks]
    estimate, _ = _values(c.report.reading.of_cohort if c.report else None for c in checks)
    if not np.isnan(estimate).all():
        axes.plot(
            number, estimate, color=theme.faint, marker=".", markersize=4, linewidth=0.7,
            label="cohort: estimate",
        )  # fmt: skip


def _values(estimates: Iterable[Estimated | None]) -> tuple[NDArray[np.float64], ...]:
    """Values and deviations of estimates, shape [checks] each; without an estimate, a gap."""
    pairs = [(e.value, e.deviation) if e else (math.nan, math.nan) for e in estimates]
    return tuple(np.array(pairs, dtype=np.float64).reshape(-1, 2).T)


def _draw_lower_bounds(axes: Any, reports: _Reports, theme: Theme, *, small: bool) -> None:
    bounds = [(n, r.lower_bound) for n, r in reports if r.lower_bound is not None]
    if bounds:
        axes.plot(
            *zip(*bounds, strict=True), color=theme.bound, marker="^",
            markersize=3.5 if small else 6, linestyle="none", label="cohort: at least",
        )  # fmt: skip


def _draw_upper_limits(axes: Any, reports: _Reports, theme: Theme) -> None:
    """Draw a bar from each lower bound to its upper limit; it leaves a plot that is too low."""
    limits = [(n, r.lower_bound or 0.0, r.upper_limit) for n, r in reports if r.upper_limit]
    if limits:
        number, lower, upper = zip(*limits, strict=True)
        axes.vlines(
            number, lower, upper, color=theme.bound, alpha=0.3,
            linewidth=1.5 if len(reports) > CROWD else 5, label="to at most",
        )  # fmt: skip


def _draw_threshold(axes: Any, reports: _Reports, theme: Theme) -> None:
    thresholds = [(n, r.verdict.threshold) for n, r in reports if r.verdict]
    if thresholds:
        look: dict[str, Any] = {"color": theme.threshold, "linestyle": (0, (6, 3))}
        step(axes, *zip(*thresholds, strict=True), label="threshold", **look)


def _draw_alarms(
    axes: Any, checks: Sequence[Point[Report]], reports: _Reports, theme: Theme
) -> None:
    """Mark alarms along the head of the plot, checks without a report along its foot."""
    alarms = [n for n, r in reports if r.outcome is Outcome.DRIFT]
    for number in alarms:
        axes.axvspan(number - 0.5, number + 0.5, color=theme.alarm, alpha=0.12, linewidth=0)
    mark(axes, alarms, 0.97, color=theme.alarm, marker="D", label="alarm: drift")
    mark_missing(axes, checks, "failed: no number", theme)


MOST = 60
"""Rows of a picture; of more columns, those that drifted most often, then furthest."""

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
        shown = point.report if point.report and point.report.is_table else None
        for name, column in (shown.columns if shown else {}).items():
            drifts[name] = drifts.get(name, 0) + (column.outcome is Outcome.DRIFT)
            furthest[name] = max(furthest.get(name, 0.0), heat_of(column))
    return sorted(drifts, key=lambda name: (-drifts[name], -furthest[name], name))[:MOST]


def heat_of(column: ColumnReport) -> float:
    """Return the estimate in multiples of the threshold, or in nats without one; NaN if it is 0."""
    threshold = column.verdict.threshold if column.verdict else 1.0
    return max(column.reading.headline.value, 0.0) / threshold if threshold > 0 else math.nan


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
    axes.set_yticks(range(len(names)), [shortened(name, longest) for name in names])
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
    bar.set_label("divergence ÷ threshold" if decided else "divergence  [nats]", color=theme.ink)
    bar.ax.tick_params(color=theme.faint, labelcolor=theme.ink)
