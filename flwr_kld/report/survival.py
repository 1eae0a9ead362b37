"""Survival of groups of records, as a statistics report has it: curves, and a test."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from flwr_kld.common.report_views import Viewed
from flwr_kld.infer.figures.numbers import SIDES, Figure
from flwr_kld.infer.survival import SurvivalCurve, curves
from flwr_kld.kernel.arguments import choice, instance, set_fields, text
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.words import brief, shown
from flwr_kld.table.binned import Binned
from flwr_kld.table.frame import BY
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

_LEAST_P = 1e-4
"""Smaller p-values are not told apart in a first line."""
_LEFT_OUT = 0.01
"""Fraction of the records in no curve up to which curves are tested against each other."""


@dataclass(frozen=True)
class Survival:
    """How long records go without an event: what to count, and how to read it.

    Parameters
    ----------
    time : str
        A `Binned` feature: until the event, or until the record was last seen.
        Its edges begin at 0 or below: what lies below 0 is no time.
    event : str
        A feature with two `Labels`; with more if `others` are censored.
    happened : str
        The one of them that says that the event happened, as text: "1" of 0 and 1. Default "yes".
    by : str, optional
        A feature with `Labels` whose records have a curve each.
    others : str
        Records whose event is missing, or another code. ``"left out"`` of all curves, and counted
        beside them (default); or ``"censored"``: where the event is empty until it happens, or
        other events end what is watched.

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
    others: Literal["left out", "censored"] = "left out"

    def __post_init__(self) -> None:
        set_fields(self, others=choice("others", self.others, ("left out", "censored")))

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
        if self.others not in ("left out", "censored"):
            raise ValueError(f"others={self.others!r}: choose 'left out' or 'censored'")
        censors = self.others == "censored"
        if not isinstance(event, Labels) or (len(event.names) != 2 and not censors):
            raise ValueError(
                f"{self.event!r} is to have two labels, such as 'no' and 'yes': "
                "with others='censored' it may have more"
            )
        text("happened", self.happened)
        labels = [str(label) for label in event.names]
        if self.happened not in labels:
            raise ValueError(f"{self.event!r} has no label {self.happened!r}: it has {labels}")
        if by is not None and not isinstance(by, Labels):
            raise ValueError(f"{self.by!r} has no labels: records are told apart by Labels")
        edges = tuple(map(float, time.edges))
        below_0 = sum(edge <= 0 for edge in edges)
        if below_0 == len(edges):
            raise ValueError(f"{self.time!r} has no edge above 0: there is no time to tell")
        names = [""] if by is None else [str(label) for label in by.names]
        shape = tuple(feature.size for feature in kinds.values())
        counts = report.columns[name].counts
        held = np.array(counts.values, dtype=np.float64).reshape(*shape[:2], -1)[:, :, : len(names)]
        first, last = labels.index(self.happened), len(edges) + 1
        rest = np.arange(shape[1]) != first
        if not censors:
            rest[len(labels) :] = False
        timed = held[below_0:last]
        read = np.stack([timed[:, first], timed[:, rest].sum(axis=1)]).transpose(2, 0, 1)
        summed = (1, int(rest.sum()))
        cells_out = shape[0] * shape[1] - len(timed) * sum(summed)
        out = held.sum(axis=(0, 1)) - read.sum(axis=(1, 2))
        reach = SIDES * counts.noise * math.sqrt(cells_out)
        lacking = self._lacking(report, below_0)
        found, log_rank = curves(
            read,
            names,
            noise=counts.noise,
            summed=summed,
            records=_records(report.records, lacking),
            design_effect=(counts.design_effect or 1.0) if counts.draws == "client" else 0.0,
        )
        unit = report.columns[self.time].unit if self.time in report.columns else ""
        whom = report.whom
        if counts.draws == "client":  # a band of a curve knows no more of them
            whom += ", if a client's records are no more alike in this than in a cell, on average"
        # A test of curves that lack some of the records would tell of these, too.
        if any(low > 0 and value > _LEFT_OUT for value, low in lacking):
            log_rank = None
        return SurvivalCurves(
            self,
            whom,
            edges[below_0:],
            tuple(found),
            tuple(
                Figure(max(n, 0.0), reach / SIDES, max(n - reach, 0.0), max(n + reach, 0.0))
                for n in out.tolist()
            ),
            log_rank,
            unit,
            from_0=below_0 > 0,
        )

    def _lacking(self, report: StatisticsReport, below_0: int) -> list[tuple[float, float]]:
        """Return the fraction of the records that each feature leaves out, and its lower limit."""
        # A feature by itself tells it with the noise of few counts.
        found = []
        for own in self.columns:
            statistics = report.columns[own].statistics
            parts = list(statistics.unlisted)
            if own == self.event and self.others == "censored":
                parts = []
            if own == self.time:
                parts += statistics.histogram[:below_0]
            found.append((sum(one.value for one in parts), sum(one.low for one in parts)))
        return found


def _records(records: float, lacking: list[tuple[float, float]]) -> tuple[float, float]:
    """Return between which numbers is that of the records that lack nothing."""
    # Of what several lack together nothing is known: the same records may lack all, or each others.
    parts = [value for value, _ in lacking]
    return max(records * (1 - sum(parts)), 1.0), max(records * (1 - max(parts)), 1.0)


@dataclass(frozen=True, repr=False)
class SurvivalCurves(Viewed):
    """What was read. Everything in it is public."""

    asked: Survival
    whom: str  # Whom the curves are about, and if what
    times: tuple[float, ...]  # Ends of the bins but the last, which has none
    curves: tuple[SurvivalCurve, ...]  # Of each group; the last bin lies beyond all times
    # Records of each group that are in no curve: without a time, or neither with the event nor
    # without
    left_out: tuple[Figure, ...]
    # Probability of curves that differ as much, if all groups had one and records are independent,
    # or as alike within clients as was measured, and those censored lie in their bins alike in all
    # groups; None of one group, or where more than a hundredth of the records are in no curve
    log_rank: float | None
    unit: str = ""  # Of the times
    from_0: bool = True  # Whether times begin at an edge: else those below 0 are in the first bin

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return asdict(self)

    @property
    def summary(self) -> str:
        """What the curves are of, and whether they differ, in one line."""
        what = f"Survival until {brief(self.asked.event)}"
        if self.asked.by is None:
            return f"{what}: {self.half_of(self.curves[0])}."
        groups = f"{what} in {len(self.curves)} groups, by {brief(self.asked.by)}"
        if self.log_rank is None:
            return f"{groups}. They are not tested against each other."
        p = f"= {self.log_rank:.2g}" if self.log_rank >= _LEAST_P else f"< {_LEAST_P:g}"
        return f"{groups}. Log-rank test of a difference: p {p}."

    def half_of(self, curve: SurvivalCurve) -> str:
        """Say by when half had the event, with limits: ``half by 8 months (7 to 9)``."""
        median, first, last = curve.medians(self.times)
        half = "half not reached" if median is None else f"half by {median:g} {self.unit}".rstrip()
        if first is None:
            return half
        return f"{half} ({first:g} {'or later' if last is None else f'to {last:g}'})"

    def name_of(self, curve: SurvivalCurve) -> str:
        """Return what a curve's group is called; empty where there are no groups."""
        return "" if self.asked.by is None else shown(curve.group)
