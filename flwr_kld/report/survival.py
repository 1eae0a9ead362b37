"""Survival of groups of records, as a statistics report tells it: curves, a test, a plot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from flwr_kld.domain.binned import Binned
from flwr_kld.domain.frame import BY
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.inference.survival import SurvivalCurve, curves
from flwr_kld.kernel.arguments import instance, text
from flwr_kld.report.panels import canvas, shortened
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.words import shown

_MOST_TICKS = 8
"""Times at which a plot shows numbers at risk."""
_LINE, _WIDE = 11, 100
"""Height of a line of those, in points; characters of a line of the title."""


@dataclass(frozen=True)
class Survival:
    """How long records go without an event: what to count, and how to read it.

    Parameters
    ----------
    time : str
        A `Binned` feature: until the event, or until the record was last seen.
    event : str
        A feature with two `Labels`.
    happened : str
        The one of them that says that the event happened, as text: "1" of 0 and 1. Default "yes".
    by : str, optional
        A feature with `Labels` whose records have a curve each.

    Examples
    --------
    >>> died = Survival("months", "died", by="arm")
    >>> table = Table(
    ...     {"months": Binned.uniform(0, 24, 24), "died": ["no", "yes"], "arm": ["a", "b"]},
    ...     interactions=[died.columns],
    ... )
    """

    time: str
    event: str
    happened: str = "yes"
    by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Features that the table must count together, in its `interactions`."""
        return (self.time, self.event) if self.by is None else (self.time, self.event, self.by)

    def of(self, report: StatisticsReport, table: Table) -> SurvivalCurves:
        """Read the curves of what was released, at no further cost.

        Parameters
        ----------
        report : StatisticsReport
            What ``Statistics(table, trust).ask(grid)`` gave.
        table : Table
            What was asked about, with `columns` among its interactions.

        Returns
        -------
        SurvivalCurves
            Of the records that have all these features.

        Raises
        ------
        ValueError
            If the report is of another table, the table does not count these features together, or
            they are of other kinds.
        """
        instance("report", report, StatisticsReport, "what Statistics(table, trust).ask(grid) gave")
        instance("table", table, Table, "the Table that was asked about")
        if table.fingerprint != report.domain:
            raise ValueError("the report is of another table: give the one that was asked about")
        if (name := BY.join(self.columns)) not in report.columns:
            raise ValueError(
                f"the table does not count {name!r} together: "
                f"Table(…, interactions=[{self.columns!r}])"
            )
        kinds = {name: table.columns[name] for name in self.columns}
        time, event = kinds[self.time], kinds[self.event]
        by = None if self.by is None else kinds[self.by]
        if not isinstance(time, Binned):
            raise ValueError(f"{self.time!r} has no edges: a time is Binned")
        if not isinstance(event, Labels) or len(event.names) != 2:
            raise ValueError(f"{self.event!r} is to have two labels, such as 'no' and 'yes'")
        text("happened", self.happened)
        labels = [str(label) for label in event.names]
        if self.happened not in labels:
            raise ValueError(f"{self.event!r} has no label {self.happened!r}: it has {labels}")
        if by is not None and not isinstance(by, Labels):
            raise ValueError(f"{self.by!r} has no labels: records are told apart by Labels")
        first = labels.index(self.happened)
        names = [""] if by is None else [str(label) for label in by.names]
        shape = tuple(feature.size for feature in kinds.values())
        place = np.arange(np.prod(shape)).reshape(*shape[:2], -1)
        cells = place[: len(time.edges) + 1, [first, 1 - first]][:, :, : len(names)]
        counts = report.columns[name].counts
        held = np.array(counts.values, dtype=np.float64)[cells.transpose(2, 1, 0)]
        found, log_rank = curves(
            held,
            names,
            noise=counts.noise,
            records=_records(report, kinds),
            design_effect=(counts.design_effect or 1.0) if counts.draws == "client" else 0.0,
        )
        unit = report.columns[self.time].unit if self.time in report.columns else ""
        whom = report.whom
        if counts.draws == "client":  # a band of a curve knows no more of them
            whom += ", if a client's records are no more alike in this than in a cell, on average"
        return SurvivalCurves(
            self, whom, tuple(map(float, time.edges)), tuple(found), log_rank, unit
        )


def _records(report: StatisticsReport, features: Iterable[str]) -> tuple[float, float]:
    """Return between which numbers is that of the records that have all of some features."""
    # A feature by itself tells what it lacks with the noise of few counts. Of what several lack
    # together nothing is known: the same records may lack all, or each others.
    lacking = [
        sum(one.value for one in report.columns[own].statistics.unlisted) for own in features
    ]
    least, most = (report.records * (1 - part) for part in (sum(lacking), max(lacking)))
    return max(least, 1.0), max(most, 1.0)


def _half_of(curve: SurvivalCurve, times: tuple[float, ...], unit: str) -> str:
    """Say by when half had the event, with limits: ``half by 8 months (7 to 9)``."""
    median, first, last = curve.medians(times)
    half = "half not reached" if median is None else f"half by {median:g} {unit}".rstrip()
    if first is None:
        return half
    return f"{half} ({first:g} {'or later' if last is None else f'to {last:g}'})"


@dataclass(frozen=True)
class SurvivalCurves:
    """What was read. Everything in it is public."""

    asked: Survival
    whom: str  # Whom the curves are about, and if what
    times: tuple[float, ...]  # Ends of the bins but the last, which has none
    curves: tuple[SurvivalCurve, ...]  # Of each group; the last bin lies beyond all times
    # Probability of curves that differ as much, if all groups had one and records are independent,
    # or as alike within clients as was measured, and those censored lie in their bins alike in all
    # groups; None of one group
    log_rank: float | None
    unit: str = ""  # Of the times

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return asdict(self)

    def __str__(self) -> str:
        event, time = shown(self.asked.event), shown(self.asked.time)
        lines = [f"{event} by {time}, about {self.whom}"]
        for curve in self.curves:
            last = len(self.times) - 1
            lines.append(
                f"  {self._name(curve) or 'all'}: {100 * curve.survival[last]:.3g} % "
                f"({100 * curve.low[last]:.3g}–{100 * curve.high[last]:.3g}) without it at "
                f"{self.times[last]:g} {self.unit}".rstrip()
                + f"; {_half_of(curve, self.times, self.unit)}; "
                f"{curve.at_risk[0]:,.0f} at risk in the beginning"
            )
        if self.log_rank is not None:
            alike = "log-rank test that all are alike, if records are independent, censored alike"
            lines.append(f"  {alike}: p = {self.log_rank:.2g}")
        return "\n".join(lines)

    def _name(self, curve: SurvivalCurve) -> str:
        """Return what a curve's group is called; empty where there are no groups."""
        return "" if self.asked.by is None else shown(curve.group)

    def plot(self, file: str | Path) -> None:
        """Draw the curves with their bands, and the numbers at risk below.

        Raises `ImportError` that names the extra if matplotlib is not there.
        """
        size = (7.5, 4.2 + _LINE / 72 * len(self.curves))
        with canvas(file, size, title="", dark=False, narrow=False) as (figure, _):
            self._draw(figure.subplots())

    def _draw(self, axes: Any) -> None:
        at = [min(0.0, self.times[0]), *self.times]
        wanted = np.linspace(at[0], at[-1], _MOST_TICKS)
        ticks = np.unique(np.abs(np.subtract.outer(at, wanted)).argmin(axis=0)).tolist()
        inside = np.repeat(at, 2)[1:-1]
        for row, curve in enumerate(self.curves, start=3):
            told = [[1.0, *x[: len(self.times)]] for x in (curve.survival, curve.low, curve.high)]
            name = shortened(self._name(curve))
            (line,) = axes.plot(at, told[0], marker=".", label=name or None)
            # Within a bin a curve lies between its values at both ends.
            low, high = np.repeat(told[1], 2)[2:], np.repeat(told[2], 2)[:-2]
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
        axes.set_ylabel(f"fraction without {self.asked.event!r}")
        named = self.unit in ("", self.asked.time)
        label = self.asked.time if named else f"{self.asked.time} ({self.unit})"
        axes.set_xlabel(label)
        if self.log_rank is not None:
            axes.legend(frameon=False, title=f"{self.asked.by}; log-rank p = {self.log_rank:.2g}")
        title = f"About {self.whom}; 95 % bands, all times at once"
        axes.set_title("\n".join(wrap(title, _WIDE)), fontsize=9)
