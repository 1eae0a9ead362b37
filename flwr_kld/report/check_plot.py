"""What the plot of checks shows: estimates, limits and alarms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.panels import CROWD, Theme, mark, mark_missing
from flwr_kld.report.reading import Estimated
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

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
            markersize=3.5 if small else 6, linestyle="none", label="population: at least",
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
        number, threshold = zip(*thresholds, strict=True)
        axes.step(
            [number[0] - 0.5, *number, number[-1] + 0.5], [threshold[0], *threshold, threshold[-1]],
            where="mid", color=theme.threshold, linewidth=1.4, linestyle=(0, (6, 3)),
            label="threshold",
        )  # fmt: skip


def _draw_alarms(
    axes: Any, checks: Sequence[Point[Report]], reports: _Reports, theme: Theme
) -> None:
    """Mark alarms along the head of the plot, checks without a report along its foot."""
    alarms = [n for n, r in reports if r.outcome is Outcome.DRIFT]
    for number in alarms:
        axes.axvspan(number - 0.5, number + 0.5, color=theme.alarm, alpha=0.12, linewidth=0)
    mark(axes, alarms, 0.97, color=theme.alarm, marker="D", label="alarm: drift")
    mark_missing(axes, checks, "failed: no number", theme)
