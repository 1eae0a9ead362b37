"""Survival of groups of records, as a statistics report tells it: curves, a test, a plot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld._extras import require
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.frame import BY
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.inference.survival import SurvivalCurve, curves
from flwr_kld.kernel.arguments import instance, text
from flwr_kld.report.statistics_report import StatisticsReport

_MOST_TICKS = 8
"""Numbers at risk that a plot shows."""


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
        The one of them that says that the event happened. Default "yes".
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
        time, event, by = kinds[self.time], kinds[self.event], kinds.get(self.by or "")
        if not isinstance(time, Binned):
            raise ValueError(f"{self.time!r} has no edges: a time is Binned")
        if not isinstance(event, Labels) or len(event.names) != 2:
            raise ValueError(f"{self.event!r} is to have two labels, such as 'no' and 'yes'")
        text("happened", self.happened)
        if self.happened not in event.names:
            raise ValueError(f"{self.event!r} has no label {self.happened!r}")
        if by is not None and not isinstance(by, Labels):
            raise ValueError(f"{self.by!r} has no labels: records are told apart by Labels")
        first = event.names.index(self.happened)
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
            records=_records(float(held.sum()), report, kinds),
            design_effect=(counts.design_effect or 1.0) if counts.draws == "client" else 0.0,
        )
        unit = report.columns[self.time].unit if self.time in report.columns else ""
        return SurvivalCurves(
            self, report.whom, tuple(map(float, time.edges)), tuple(found), log_rank, unit
        )


def _records(counted: float, report: StatisticsReport, features: Iterable[str]) -> float:
    """Return how many records have all of some features: as counted, within what each tells."""
    # A feature by itself tells what it lacks with the noise of few counts. Of what several lack
    # together nothing is known: the same records may lack all, or each others.
    lacking = [
        sum(one.value for one in report.columns[own].statistics.unlisted) for own in features
    ]
    most, least = (report.records * (1 - part) for part in (max(lacking), sum(lacking)))
    return max(min(max(counted, least), most), 1.0)


@dataclass(frozen=True)
class SurvivalCurves:
    """What was read. Everything in it is public."""

    asked: Survival
    whom: str  # Whom the curves are about
    times: tuple[float, ...]  # Ends of the bins but the last, which has none
    curves: tuple[SurvivalCurve, ...]  # Of each group; the last bin lies beyond all times
    # Probability of curves that differ as much, if all groups had one and records are independent,
    # or as alike within clients as was measured; None of one group
    log_rank: float | None
    unit: str = ""  # Of the times

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.asked.event} by {self.asked.time}, about {self.whom}"]
        for curve in self.curves:
            last, median = len(self.times) - 1, curve.median(self.times)
            half = "half not reached" if median is None else f"half by {median:g} {self.unit}"
            lines.append(
                f"  {curve.group or 'all'}: {100 * curve.survival[last]:.3g} % "
                f"({100 * curve.low[last]:.3g}–{100 * curve.high[last]:.3g}) without it at "
                f"{self.times[last]:g} {self.unit}".rstrip()
                + f"; {half.rstrip()}; "
                f"{curve.at_risk[0]:,.0f} at risk in the beginning"
            )
        if self.log_rank is not None:
            alike = "log-rank test that all are alike, if records are independent"
            lines.append(f"  {alike}: p = {self.log_rank:.2g}")
        return "\n".join(lines)

    def plot(self, file: str | Path) -> None:
        """Draw the curves with their bands, and the numbers at risk below.

        Raises `ImportError` that names the extra if matplotlib is not there.
        """
        figures = require("matplotlib.figure", extra="plots")
        figure = figures.Figure(figsize=(7.5, 4.2 + 0.25 * len(self.curves)), layout="constrained")
        axes = figure.subplots()
        times = np.array(self.times)
        start = [min(0.0, times[0])]
        ticks = np.unique(np.linspace(0, len(times) - 1, _MOST_TICKS).round().astype(int))
        table = []
        for curve in self.curves:
            told = [[1.0, *x[: len(times)]] for x in (curve.survival, curve.low, curve.high)]
            at = [*start, *times]
            (line,) = axes.step(at, told[0], where="post", label=curve.group or None)
            axes.fill_between(at, told[1], told[2], step="post", alpha=0.2, color=line.get_color())
            table.append([f"{curve.at_risk[min(i + 1, len(times))]:,.0f}" for i in ticks])
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(f"fraction without {self.asked.event!r}")
        axes.set_xlabel(f"{self.asked.time} ({self.unit})" if self.unit else self.asked.time)
        if self.log_rank is not None:
            axes.legend(title=f"{self.asked.by}; log-rank p = {self.log_rank:.2g}", frameon=False)
        below = "\n".join(
            f"at risk {curve.group}: "
            + "   ".join(f"{times[i]:g}: {n}" for i, n in zip(ticks, row, strict=True))
            for curve, row in zip(self.curves, table, strict=True)
        )
        figure.supxlabel(below, fontsize=7, x=0.02, ha="left")
        axes.set_title(f"About {self.whom}; 95 % bands, all times at once", fontsize=9)
        figure.savefig(file, dpi=150)
