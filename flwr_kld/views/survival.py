"""View of survival curves: with their bands, and the numbers at risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, ClassVar

import numpy as np

from flwr_kld.report.survival import SurvivalCurves
from flwr_kld.report.words import shortened, shown
from flwr_kld.views.document import Document
from flwr_kld.views.panels import Theme, tidy

_MOST_TICKS, _NARROW_TICKS = 8, 5
"""Times at which the numbers at risk are shown; on a phone."""
_LINE = 11
"""Height of a line of those, in points."""


class SurvivalView(Document):
    """What `SurvivalCurves` look like."""

    heading: ClassVar[str] = "Survival"

    def about(self) -> Iterator[str]:
        """Yield whom the curves are about."""
        yield f"About {self.report.whom}. Bands hold with 95 % at all times at once."

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """Return of each group how many are left, and by when half had the event."""
        curves: SurvivalCurves = self.report
        last = len(curves.times) - 1
        end = f"{curves.times[last]:g} {curves.unit}".rstrip()
        return (
            ("group", "at risk", f"without it at {end}", "in no curve", "half"),
            [
                (
                    curves.name_of(curve) or "all",
                    f"{curve.at_risk[0]:,.0f}",
                    f"{100 * curve.survival[last]:.3g} % "
                    f"({100 * curve.low[last]:.3g}–{100 * curve.high[last]:.3g})",
                    f"{out.value:,.0f} ({out.low:,.0f}–{out.high:,.0f})",
                    curves.half_of(curve),
                )
                for curve, out in zip(curves.curves, curves.left_out, strict=True)
            ],
        )

    def notes(self) -> Iterator[str]:
        """Yield what the test takes for granted, and what the curves lack."""
        curves: SurvivalCurves = self.report
        if curves.log_rank is not None:
            yield "The test takes records for independent, and censored alike in all groups."
        elif len(curves.curves) > 1:
            yield "There is no log-rank test, as more than 1 % of the records are in no curve."
        if not curves.from_0:
            yield f"Times below 0 would count as below {curves.times[0]:g}: an edge at 0 tells."

    def numbers(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each group and time."""
        curves: SurvivalCurves = self.report
        for curve in curves.curves:
            by_time = zip(
                curves.times, curve.survival, curve.low, curve.high, curve.at_risk, strict=False
            )
            for time, left, low, high, at_risk in by_time:
                yield {
                    "group": curve.group, "time": time, "survival": left, "at_least": low,
                    "at_most": high, "at_risk": at_risk,
                }  # fmt: skip

    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""
        return (3.9 if narrow else 7.5), 4.2 + _LINE / 72 * (1 + len(self.report.curves))

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw the curves with their bands, and the numbers at risk below."""
        curves, axes = self.report, figure.subplots()
        at = [min(0.0, curves.times[0]), *curves.times]
        wanted = np.linspace(at[0], at[-1], _NARROW_TICKS if narrow else _MOST_TICKS)
        ticks = np.unique(np.abs(np.subtract.outer(at, wanted)).argmin(axis=0)).tolist()
        inside = np.repeat(at, 2)[1:-1]
        around = {"va": "top", "textcoords": "offset points", "fontsize": 7}
        colours = (theme.estimate, theme.truth, theme.bound, theme.threshold, theme.alarm)
        look = cycle(zip(colours, "os^Dv", strict=True))
        rows = [("at risk", theme.faint)]
        for curve, (colour, marker) in zip(curves.curves, look, strict=False):
            steps = [
                [1.0, *x[: len(curves.times)]] for x in (curve.survival, curve.low, curve.high)
            ]
            name = curves.name_of(curve)
            axes.plot(
                at, steps[0], color=colour, marker=marker, markersize=3,
                label=shortened(name, 15) or None,
            )  # fmt: skip
            # Within a bin a curve lies between its values at both ends.
            low, high = np.repeat(steps[1], 2)[2:], np.repeat(steps[2], 2)[:-2]
            axes.fill_between(inside, low, high, alpha=0.2, color=colour, linewidth=0)
            for i in ticks:
                axes.annotate(
                    f"{curve.at_risk[i]:,.0f}", (at[i], 0), xycoords=("data", "axes fraction"),
                    xytext=(0, -(3 + len(rows)) * _LINE), ha="center", color=colour, **around,
                )  # fmt: skip
            rows.append((shortened(name, 10), colour))
        for row, (name, colour) in enumerate(rows, start=3):
            axes.annotate(
                name, (0, 0), xycoords="axes fraction", xytext=(-6, -row * _LINE), ha="right",
                color=colour, **around,
            )  # fmt: skip
        axes.set_xticks([at[i] for i in ticks], [f"{at[i]:g}" for i in ticks])
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(f"fraction without the event ({shortened(shown(curves.asked.event))})")
        named = curves.unit in ("", curves.asked.time)
        label = curves.asked.time if named else f"{curves.asked.time} ({curves.unit})"
        axes.set_xlabel(label)
        axes.grid(axis="y", color=theme.faint, alpha=0.25)
        tidy(axes, theme, narrow)
