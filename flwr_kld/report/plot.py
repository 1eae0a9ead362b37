"""The history plot: estimates with their error, over checks, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flwr_kld._extras import require
from flwr_kld.report.history import Check

_ESTIMATE, _TRUTH, _DRIFT = "#1f5fa8", "#c4501b", "#8a8a8a"


def plot_history(
    checks: Sequence[Check], path: Path, *, drift_from: int | None = None, title: str = ""
) -> None:
    """Draw estimates with two standard deviations either way.

    Parameters
    ----------
    checks : Sequence[Check]
        Failed ones leave a gap.
    path : Path
        The ending says the format: ``.png`` or ``.svg``.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.

    Raises
    ------
    ImportError
        If matplotlib is not installed; names the extra.
    """
    figures = require("matplotlib.figure", extra="plots")
    ticker = require("matplotlib.ticker", extra="plots")
    figure = figures.Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    known = [(c.number, c.truth) for c in checks if c.truth is not None]
    if known:
        axes.plot(
            *np.transpose(known), color=_TRUTH, marker="_", markersize=14, markeredgewidth=2.5,
            linewidth=1, linestyle=":", label="truth (exact, this cohort)",
        )  # fmt: skip
    done = [
        (c.number, c.report.estimate, 2 * c.report.error)
        for c in checks
        if c.report and c.report.estimate is not None
    ]
    if done:
        number, estimate, error = np.transpose(done)
        axes.errorbar(
            number, estimate, error, color=_ESTIMATE, marker="o", capsize=4, linewidth=1.5,
            label="private estimate ± 2 s.d.",
        )  # fmt: skip
    if drift_from is not None:
        axes.axvline(drift_from - 0.5, color=_DRIFT, linestyle="--", linewidth=1)
        axes.annotate(
            " drift injected", (drift_from - 0.5, 0.97), xycoords=("data", "axes fraction"),
            color=_DRIFT, va="top",
        )  # fmt: skip
    axes.set(xlabel="check", ylabel="KL(reference ‖ clients)  [nats]", title=title)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.15 * (high - min(0.0, low)))  # room for the legend
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if known or done:
        axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=130)
