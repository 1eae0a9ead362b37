"""What the plot of checks shows: estimates, lower bounds and alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.panels import CROWD, Theme, mark, mark_missing
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

_Reports = Sequence[tuple[int, Report]]


def draw_checks(
    axes: Any, checks: Sequence[Point[Report]], theme: Theme, drift_from: int | None
) -> None:
    """Draw estimates, lower bounds, threshold, alarms and truth, in nats.

    Parameters
    ----------
    checks : Sequence[Point]
        Those without a report leave a gap, marked at the foot.
    drift_from : int or None
        Number of the first check with a drift that a simulation injected.
    """
    reports = [(c.number, c.report) for c in checks if c.report]
    _draw_divergence(axes, checks, reports, theme)
    _draw_alarms(axes, checks, reports, theme)
    if drift_from is not None:
        axes.axvline(drift_from - 0.5, color=theme.faint, linestyle="--", linewidth=1)
        axes.annotate(
            " drift injected", (drift_from - 0.5, 0.02), xycoords=("data", "axes fraction"),
            color=theme.faint,
        )  # fmt: skip
    axes.set_ylabel("KL(reference ‖ clients)  [nats]")
    low, high = axes.get_ylim()
    low = min(0.0, low)
    axes.set_ylim(low, high + 0.08 * (high - low))  # room for the alarms


def _draw_divergence(
    axes: Any, checks: Sequence[Point[Report]], reports: _Reports, theme: Theme
) -> None:
    crowded = len(checks) > CROWD
    known = [(c.number, c.truth) for c in checks if c.truth is not None]
    if known:
        axes.plot(
            *zip(*known, strict=True), color=theme.truth, marker="_", markersize=12,
            markeredgewidth=2.5, linewidth=1, linestyle=":", label="truth (exact, this cohort)",
        )  # fmt: skip
    _draw_estimates(axes, checks, theme, band=crowded)
    bounds = [(n, r.lower_bound) for n, r in reports if r.lower_bound is not None]
    if bounds:
        axes.plot(
            *zip(*bounds, strict=True), color=theme.bound, marker="^",
            markersize=3.5 if crowded else 6, linestyle="none", label="lower confidence bound",
        )  # fmt: skip
    thresholds = [(n, r.verdict.threshold) for n, r in reports if r.verdict]
    if thresholds:
        number, threshold = zip(*thresholds, strict=True)
        axes.step(
            [number[0] - 0.5, *number, number[-1] + 0.5], [threshold[0], *threshold, threshold[-1]],
            where="mid", color=theme.threshold, linewidth=1.4, linestyle=(0, (6, 3)),
            label="threshold",
        )  # fmt: skip


def _draw_estimates(
    axes: Any, checks: Sequence[Point[Report]], theme: Theme, *, band: bool
) -> None:
    """Draw estimates with their error, as bars or as a band; without an estimate, a gap."""
    number = np.array([c.number for c in checks])
    reports = [
        c.report if c.report and c.report.reading.estimate is not None else None for c in checks
    ]
    estimate = np.array([r.reading.estimate if r else math.nan for r in reports], dtype=np.float64)
    error = np.array([2 * r.reading.error if r else math.nan for r in reports])
    if np.isnan(estimate).all():
        return
    look = {"color": theme.estimate, "linewidth": 1.2, "label": "private estimate ± 2 s.d."}
    if band:
        axes.plot(number, estimate, marker=".", markersize=3, **look)
        axes.fill_between(
            number, estimate - error, estimate + error, color=theme.estimate, alpha=0.25,
            linewidth=0,
        )  # fmt: skip
    else:
        axes.errorbar(number, estimate, error, marker="o", markersize=4, capsize=2.5, **look)


def _draw_alarms(
    axes: Any, checks: Sequence[Point[Report]], reports: _Reports, theme: Theme
) -> None:
    """Mark alarms along the head of the plot, checks without a report along its foot."""
    alarms = [n for n, r in reports if r.outcome is Outcome.DRIFT]
    for number in alarms:
        axes.axvspan(number - 0.5, number + 0.5, color=theme.alarm, alpha=0.12, linewidth=0)
    mark(axes, alarms, 0.97, color=theme.alarm, marker="D", label="alarm: drift")
    mark_missing(axes, checks, "failed: no number", theme)
