"""Survival curves as a plot, with their bands and the numbers at risk."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from flwr_kld.report.survival import SurvivalCurves
from flwr_kld.report.words import shortened
from flwr_kld.views.panels import canvas

_MOST_TICKS = 8
"""Times at which the numbers at risk are shown."""
_LINE, _WIDE = 11, 100
"""Height of a line of those, in points; characters of a line of the title."""


def plot_survival(curves: SurvivalCurves, file: str | Path) -> None:
    """Draw the curves with their bands, and the numbers at risk below.

    Raises `ImportError` that names the extra if matplotlib is not there.
    """
    size = (7.5, 4.2 + _LINE / 72 * len(curves.curves))
    with canvas(file, size, title="", dark=False, narrow=False) as (figure, _):
        _draw(curves, figure.subplots())


def _draw(curves: SurvivalCurves, axes: Any) -> None:
    at = [min(0.0, curves.times[0]), *curves.times]
    wanted = np.linspace(at[0], at[-1], _MOST_TICKS)
    ticks = np.unique(np.abs(np.subtract.outer(at, wanted)).argmin(axis=0)).tolist()
    inside = np.repeat(at, 2)[1:-1]
    for row, curve in enumerate(curves.curves, start=3):
        steps = [[1.0, *x[: len(curves.times)]] for x in (curve.survival, curve.low, curve.high)]
        name = shortened(curves.name_of(curve))
        out = f"{curves.left_out[row - 3].value:,.0f} in no curve"
        (line,) = axes.plot(at, steps[0], marker=".", label=f"{name}, {out}")
        # Within a bin a curve lies between its values at both ends.
        low, high = np.repeat(steps[1], 2)[2:], np.repeat(steps[2], 2)[:-2]
        axes.fill_between(inside, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        around = {"va": "top", "textcoords": "offset points", "fontsize": 7}
        axes.annotate(
            f"at risk {name}".rstrip(), (0, 0), xycoords="axes fraction",
            xytext=(-6, -row * _LINE), ha="right", color=line.get_color(), **around,
        )  # fmt: skip
        for i in ticks:
            axes.annotate(
                f"{curve.at_risk[i]:,.0f}", (at[i], 0), xycoords=("data", "axes fraction"),
                xytext=(0, -row * _LINE), ha="center", **around,
            )  # fmt: skip
    axes.set_xticks([at[i] for i in ticks], [f"{at[i]:g}" for i in ticks])
    axes.set_ylim(0, 1.02)
    axes.set_ylabel(f"fraction without {curves.asked.event!r}")
    named = curves.unit in ("", curves.asked.time)
    label = curves.asked.time if named else f"{curves.asked.time} ({curves.unit})"
    axes.set_xlabel(label)
    if curves.asked.by is not None:
        p = "" if curves.log_rank is None else f"; log-rank p = {curves.log_rank:.2g}"
        axes.legend(frameon=False, title=f"{curves.asked.by}{p}")
    title = f"About {curves.whom}; 95 % bands, all times at once"
    axes.set_title("\n".join(wrap(title, _WIDE)), fontsize=9)
