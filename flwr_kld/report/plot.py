"""The history plot: estimates, lower bounds and alarms over checks, and the budget below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.history import Check
from flwr_kld.report.panels import (
    CROWD,
    Spend,
    Theme,
    draw_spend,
    label_numbers,
    mark,
    mark_missing,
    two_panels,
)
from flwr_kld.report.report import Report

_Reports = Sequence[tuple[int, Report]]


def plot_history(
    checks: Sequence[Check],
    path: Path,
    *,
    drift_from: int | None = None,
    title: str = "",
    dark: bool = False,
    narrow: bool = False,
) -> None:
    """Draw a series of checks.

    Above, in nats: estimates with two standard deviations either way, the lower confidence bound,
    the threshold, alarms, checks that failed or have not ended, and the truth where a simulation
    knows it. Below: epsilon of each check, and what the window had spent of the budget that was in
    force, if there is a ledger.

    Parameters
    ----------
    checks : Sequence[Check]
        Those without a report leave a gap, marked at the foot.
    path : Path
        The ending says the format: ``.png`` or ``.svg``.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    dark, narrow : bool
        Colours for a dark page; the shape for a phone.

    Raises
    ------
    ImportError
        If matplotlib is not installed; names the extra.
    """
    with two_panels(path, title=title, dark=dark, narrow=narrow) as (above, below, theme):
        reports = [(c.number, c.report) for c in checks if c.report]
        _draw_divergence(above, checks, reports, theme)
        _draw_alarms(above, checks, reports, theme)
        spent = [Spend(n, r.delivered, r.epsilon_left, r.epsilon_budget) for n, r in reports]
        draw_spend(below, spent, "check", theme)
        if drift_from is not None:
            above.axvline(drift_from - 0.5, color=theme.faint, linestyle="--", linewidth=1)
            above.annotate(
                " drift injected", (drift_from - 0.5, 0.02), xycoords=("data", "axes fraction"),
                color=theme.faint,
            )  # fmt: skip
        above.set_ylabel("KL(reference ‖ clients)  [nats]")
        low, high = above.get_ylim()
        low = min(0.0, low)
        above.set_ylim(low, high + 0.08 * (high - low))  # room for the alarms
        started = {c.number: c.started for c in checks if c.started is not None}
        label_numbers(below, [c.number for c in checks], started, "check", narrow)


def _draw_divergence(axes: Any, checks: Sequence[Check], reports: _Reports, theme: Theme) -> None:
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
    thresholds = [(n, r.threshold) for n, r in reports if r.threshold is not None]
    if thresholds:
        number, threshold = zip(*thresholds, strict=True)
        axes.step(
            [number[0] - 0.5, *number, number[-1] + 0.5], [threshold[0], *threshold, threshold[-1]],
            where="mid", color=theme.threshold, linewidth=1.4, linestyle=(0, (6, 3)),
            label="threshold",
        )  # fmt: skip


def _draw_estimates(axes: Any, checks: Sequence[Check], theme: Theme, *, band: bool) -> None:
    """Draw estimates with their error, as bars or as a band; without an estimate, a gap."""
    number = np.array([c.number for c in checks])
    reports = [c.report if c.report and c.report.estimate is not None else None for c in checks]
    estimate = np.array([r.estimate if r else math.nan for r in reports], dtype=np.float64)
    error = np.array([2 * r.error if r else math.nan for r in reports])
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


def _draw_alarms(axes: Any, checks: Sequence[Check], reports: _Reports, theme: Theme) -> None:
    """Mark alarms along the head of the plot, checks without a report along its foot."""
    alarms = [n for n, r in reports if r.outcome is Outcome.DRIFT]
    for number in alarms:
        axes.axvspan(number - 0.5, number + 0.5, color=theme.alarm, alpha=0.12, linewidth=0)
    mark(axes, alarms, 0.97, color=theme.alarm, marker="D", label="alarm: drift")
    mark_missing(axes, checks, "failed: no number", theme)
