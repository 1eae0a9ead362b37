"""The history plot: estimates, certified bounds and alarms over checks, and the budget below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from flwr_kld._extras import require
from flwr_kld.report.history import Check
from flwr_kld.report.report import Report
from flwr_kld.report.verdict import Outcome


@dataclass(frozen=True)
class _Theme:
    """Colours that colour-blind readers tell apart too; each has a shape of its own."""

    ground: str
    ink: str
    faint: str
    estimate: str
    bound: str
    threshold: str
    truth: str
    alarm: str
    spend: str


_LIGHT: Final = _Theme(
    ground="#ffffff", ink="#1c2430", faint="#6b7480", estimate="#1f5fa8", bound="#00735c",
    threshold="#8a3ffc", truth="#b3541e", alarm="#c2183c", spend="#7a8fa6",
)  # fmt: skip
_DARK: Final = _Theme(
    ground="#171c24", ink="#e6e9ee", faint="#9aa4b1", estimate="#7db4f0", bound="#43c9a7",
    threshold="#c4a3ff", truth="#f0a35e", alarm="#ff7d93", spend="#8296ad",
)  # fmt: skip
_Reports = Sequence[tuple[int, Report]]
_CROWD = 60
"""More checks than this are drawn with smaller marks, and their errors as a band."""
_DATES_FROM = timedelta(days=1)
"""Histories at least this long are labelled with dates."""


def plot_history(
    checks: Sequence[Check],
    path: Path,
    *,
    drift_from: int | None = None,
    title: str = "",
    budget: float | None = None,
    dark: bool = False,
    narrow: bool = False,
) -> None:
    """Draw a series of checks.

    Above, in nats: estimates with two standard deviations either way, the certified lower bound,
    the threshold, alarms, failed checks, and the truth where a simulation knows it. Below: epsilon
    of each check, and what the budget's window has spent, if there is a ledger.

    Parameters
    ----------
    checks : Sequence[Check]
        Failed ones leave a gap, marked at the foot.
    path : Path
        The ending says the format: ``.png`` or ``.svg``.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    budget : float, optional
        Epsilon of the budget's window, in nats.
    dark, narrow : bool
        Colours for a dark page; the shape for a phone.

    Raises
    ------
    ImportError
        If matplotlib is not installed; names the extra.
    """
    matplotlib = require("matplotlib", extra="plots")
    figures = require("matplotlib.figure", extra="plots")
    theme = _DARK if dark else _LIGHT
    size = (3.9, 4.6) if narrow else (8.6, 5.2)
    style = {
        "font.size": 8 if narrow else 9, "svg.hashsalt": "flwr-kld", "text.color": theme.ink,
        "axes.labelcolor": theme.ink, "xtick.color": theme.ink, "ytick.color": theme.ink,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = figures.Figure(figsize=size, layout="constrained", facecolor=theme.ground)
        above, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
        for axes in (above, below):
            axes.set_facecolor(theme.ground)
        reports = [(c.number, c.report) for c in checks if c.report]
        _draw_divergence(above, checks, reports, theme)
        _draw_alarms(above, checks, reports, theme)
        _draw_spend(below, reports, budget, theme)
        if drift_from is not None:
            above.axvline(drift_from - 0.5, color=theme.faint, linestyle="--", linewidth=1)
            above.annotate(
                " drift injected", (drift_from - 0.5, 0.02), xycoords=("data", "axes fraction"),
                color=theme.faint,
            )  # fmt: skip
        _label(above, below, checks, theme, narrow)
        if title:
            figure.suptitle(title, fontsize="large")
        figure.savefig(path, dpi=150)


def _draw_divergence(axes: Any, checks: Sequence[Check], reports: _Reports, theme: _Theme) -> None:
    crowded = len(checks) > _CROWD
    known = [(c.number, c.truth) for c in checks if c.truth is not None]
    if known:
        axes.plot(
            *zip(*known, strict=True), color=theme.truth, marker="_", markersize=12,
            markeredgewidth=2.5, linewidth=1, linestyle=":", label="truth (exact, this cohort)",
        )  # fmt: skip
    _draw_estimates(axes, checks, theme, band=crowded)
    certified = [(n, max(r.lower_bound, 0.0)) for n, r in reports if r.lower_bound is not None]
    if certified:
        axes.plot(
            *zip(*certified, strict=True), color=theme.bound, marker="^",
            markersize=3.5 if crowded else 6, linestyle="none", label="certified lower bound",
        )  # fmt: skip
    thresholds = [(n, r.threshold) for n, r in reports if r.threshold is not None]
    if thresholds:
        number, threshold = zip(*thresholds, strict=True)
        axes.step(
            [number[0] - 0.5, *number, number[-1] + 0.5], [threshold[0], *threshold, threshold[-1]],
            where="mid", color=theme.threshold, linewidth=1.4, linestyle=(0, (6, 3)),
            label="threshold",
        )  # fmt: skip


def _draw_estimates(axes: Any, checks: Sequence[Check], theme: _Theme, *, band: bool) -> None:
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


def _draw_alarms(axes: Any, checks: Sequence[Check], reports: _Reports, theme: _Theme) -> None:
    """Mark alarms along the head of the plot, failed checks along its foot."""
    alarms = [n for n, r in reports if r.outcome is Outcome.DRIFT]
    for number in alarms:
        axes.axvspan(number - 0.5, number + 0.5, color=theme.alarm, alpha=0.12, linewidth=0)
    failed = [c.number for c in checks if c.report is None]
    for numbers, height, marker, colour, label in (
        (alarms, 0.97, "D", theme.alarm, "alarm: drift"),
        (failed, 0.03, "x", theme.faint, "failed: no number"),
    ):
        if numbers:
            axes.plot(
                numbers, [height] * len(numbers), color=colour, marker=marker, markersize=5,
                linestyle="none", transform=axes.get_xaxis_transform(), label=label,
            )  # fmt: skip


def _draw_spend(axes: Any, reports: _Reports, budget: float | None, theme: _Theme) -> None:
    axes.bar(
        [n for n, _ in reports], [r.delivered for _, r in reports],
        width=1 if len(reports) > _CROWD else 0.6, color=theme.spend, label="of each check",
    )  # fmt: skip
    left = [(n, r.epsilon_left) for n, r in reports if r.epsilon_left is not None]
    if left and budget is not None:
        number, epsilon = zip(*left, strict=True)
        spent = [budget - e for e in epsilon]
        axes.step(
            number, spent, where="mid", color=theme.estimate, linewidth=1.5,
            label="spent in the window, at most",
        )  # fmt: skip
        axes.axhline(budget, color=theme.threshold, linewidth=1.4, linestyle=(0, (6, 3)))
        axes.annotate(
            f"{epsilon[-1]:.3g} left of {budget:g}", (1, budget), xytext=(0, 2), ha="right",
            va="bottom", xycoords=("axes fraction", "data"), textcoords="offset points",
            color=theme.ink,
        )  # fmt: skip
    elif left:
        axes.step(
            *zip(*left, strict=True), where="mid", color=theme.estimate, linewidth=1.5,
            label="left in the window",
        )  # fmt: skip


def _label(above: Any, below: Any, checks: Sequence[Check], theme: _Theme, narrow: bool) -> None:
    ticker = require("matplotlib.ticker", extra="plots")
    above.set_ylabel("KL(reference ‖ clients)  [nats]")
    below.set_ylabel("ε  [nats]")
    low, high = above.get_ylim()
    if checks:
        above.set_xlim(checks[0].number - 0.8, checks[-1].number + 0.8)
    above.set_ylim(min(0.0, low), high + 0.08 * (high - min(0.0, low)))  # room for the alarms
    below.set_ylim(0, 1.3 * below.get_ylim()[1])
    below.xaxis.set_major_locator(ticker.MaxNLocator(4 if narrow else 9, integer=True))
    dates = {c.number: datetime.fromisoformat(c.report.started) for c in checks if c.report}
    if dates and max(dates.values()) - min(dates.values()) >= _DATES_FROM:
        below.xaxis.set_major_formatter(
            ticker.FuncFormatter(lambda n, _: f"{dates[n]:%d %b}" if n in dates else "")
        )
    else:
        below.set_xlabel("check")
    for axes in (above, below):
        axes.grid(axis="y", color=theme.faint, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(theme.faint)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(
                frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0), borderaxespad=0.2,
                ncols=2 if narrow else 3, columnspacing=1.2, handletextpad=0.5,
                handlelength=1.6,
            )  # fmt: skip
