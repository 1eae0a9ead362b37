"""Checks over time: columns, table, page, and the files of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from rich.table import Table

from flwr_kld.common.guesses import suggests
from flwr_kld.infer.estimators.score import THETA, score_ceiling
from flwr_kld.infer.lasting_change import lasting_change
from flwr_kld.kernel.arguments import integer
from flwr_kld.kernel.continual import Continual
from flwr_kld.report.column import (
    MARKS,
    Histogram,
    Reading,
    drifted,
    not_excluded,
    share,
    word_of,
)
from flwr_kld.report.entries import numbered, point_of, report_of
from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.report.words import evidence, nats, some_of, table_of
from flwr_kld.views.check_plot import draw_checks, draw_heat_map, rows_of
from flwr_kld.views.panels import Theme
from flwr_kld.views.series import Series, views
from flwr_kld.views.text import WIDTH, about, check_lines, details, next_step, outside, privacy

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger
    from flwr_kld.ledger.entry import Entry

WIDE, HIGH = 100.0, 36.0
"""Of a small picture."""

_GAP = 0.12
"""Part of a bar's width that is left free on either side."""

_PICTURES_ROOM = 1.05

_ERRORS = 4.0
"""An error bar may make the picture this much higher than the largest fraction."""


@dataclass(frozen=True)
class Bar:
    """One cell, in units of the picture, y from its head."""

    x: float  # Of the reference's bar
    width: float
    reference: float  # Height of the reference's bar
    at: float  # Place of the clients' mark, and the ends of its error
    clients: float
    low: float
    high: float


def bars(shown: Histogram) -> Iterator[Bar]:
    """Yield the cells of a column's small picture: both laws on one scale."""
    highest = max(*shown.reference, *shown.clients, 1e-9)
    scale = HIGH / (_PICTURES_ROOM * min(max(highest, *shown.high), _ERRORS * highest))
    each = WIDE / len(shown.names)

    def y(share: float) -> float:
        return round(min(max(HIGH - scale * share, 0.0), HIGH), 2)

    for place, (_, reference, clients, low, high) in enumerate(shown.bars):
        yield Bar(
            x=round((place + _GAP) * each, 2),
            width=round((1 - 2 * _GAP) * each, 2),
            reference=y(reference),
            at=round((place + 0.5) * each, 2),
            clients=y(clients),
            low=y(low),
            high=y(high),
        )


_LEFT = ("drifted", "key", "period", "outcome")

_USUAL_ROWS, _ROW = 14, 0.18
"""Columns of a table that a plot of the usual height has room for; inches of each further one."""

_MOST_NAMES = 2
"""Columns of a table that a line names."""


@suggests({"save_html": 'save("checks.html")'})
class CheckSeries(Series[Report]):
    """Checks of one monitor.

    Above, in nats, their plot has the population's estimates with two standard deviations either
    way, the cohort's beside them, the lower bound and the upper limit of each decision, the
    threshold, alarms, checks that failed or have not ended, and the truth where a simulation knows
    it. Of tables, it is a map of columns by checks: the divergence in multiples of the threshold,
    and what was decided.

    Parameters
    ----------
    points : Iterable[Point or Report or None]
        In order. Reports alone are numbered from 1; None stands for a check without a number.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.

    Raises
    ------
    ValueError
        If `drift_from` is not the number of a check.
    """

    _of = Report
    what: ClassVar[str] = "check"
    heading: ClassVar[str] = "Drift checks"
    _template = "page.html.j2"

    def __init__(
        self,
        points: Iterable[Point[Report] | Report | None],
        *,
        drift_from: int | None = None,
    ) -> None:
        super().__init__(points)
        self.drift_from = None if drift_from is None else integer("drift_from", drift_from, least=1)

    @classmethod
    def from_ledger(cls, ledger: Ledger, population: str = "default") -> CheckSeries:
        """Return all checks of a population, numbered as the command line does."""
        return cls.from_entries(ledger.history(population))

    @classmethod
    def from_entries(
        cls,
        entries: Iterable[Entry],
        before: int = 0,
        *,
        read: Callable[[Entry], Report | None] = report_of,
    ) -> CheckSeries:
        """Return the checks among entries, `numbered`; whatever else there is is left out."""
        return cls(
            point_of(number, entry, read(entry)) for number, entry in numbered(entries, before)
        )

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the last check in lines."""
        return check_lines(self.reports[-1], width=width)

    @property
    def since(self) -> list[str]:
        """Since when each column that drifted has changed, of a standing session's last night."""
        reports = self.reports
        if not reports or reports[-1].cost.nights == 1:
            return []
        last = reports[-1]
        alike = last.compared, last.cost.nights
        nights: list[Report] = []
        for report in reversed(reports):
            if (report.compared, report.cost.nights) != alike:
                break
            if nights and report.cost.night >= nights[0].cost.night:  # of another session
                break
            nights.insert(0, report)
            if report.cost.night == 1:
                break
        names = drifted(last.columns) if nights[0].cost.night == 1 else []
        return [sentence for name in names if (sentence := _since(name, nights))]

    def _page_values(self) -> dict[str, Any]:
        last = self.reports[-1] if self.reports else None
        return {
            "since": self.since,
            "columns": list(last.by_column) if last else [],
            "marks": MARKS,
            "word_of": word_of,
            "not_excluded": not_excluded,
            "bars": bars,
            "high": HIGH,
            "views": last and views(last),
            "truths": any(c.population_truth is not None for c in self.points),
            "theta": THETA,
            "highest": score_ceiling(THETA),
            "evidence": evidence,
            "about": about,
            "changed": share,
            "next_step": next_step,
            "privacy": privacy,
            "details": details,
            "outside": outside,
            "decided": any(report.verdict for report in self.reports),
            "thresholds": self._thresholds,
        }

    def _parts(self, report: Report) -> Iterator[Mapping[str, Any]]:
        whole = report.content()
        columns = whole.pop("columns")
        for part in report.by_column:
            estimate = part.estimate
            yield {
                "column": part.column,
                "outcome": part.outcome,
                "estimate": estimate and estimate.value,
                "deviation": estimate and estimate.deviation,
                "of": estimate and estimate.of,
                "lower_bound": part.lower_bound,
                "upper_limit": part.upper_limit,
                **whole,
                **columns[part.column],
            }

    def table(self, *, title: str = "") -> Table:
        """Return a table for a terminal, oldest first."""
        reports = self.reports
        decided = any(report.verdict for report in reports)
        known = any(report.reading.of_population for report in reports)
        ledger = any(report.cost.left is not None for report in reports)
        columns = {
            "check": True,
            "drifted": any(report.is_table for report in reports),
            "key": any(report.key for report in reports),
            "period": any(report.period for report in reports),
            "outcome": decided,
            "population": known,
            "truth": any(c.population_truth is not None for c in self.points),
            "limits": decided,
            "cohort": not known or not any(report.key for report in reports),
            "ε": not ledger,
            "ε left": ledger,
            "clients": True,
        }
        thresholds = self._thresholds
        caption = "KL(reference ‖ clients) in nats ± s.d."
        if known:
            caption += " of the population"
        if columns["cohort"]:
            caption += f"{' and' if known else ''} of the cohort"
        if decided:
            levels = sorted({r.verdict.alarm.level for r in reports if r.verdict})
            sure = ", ".join(f"{100 * level:g} %" for level in levels)
            caption += f"; limits of the cohort, {sure} each"
        if columns["drifted"]:
            caption += "; of a table, numbers of the first column by outcome and lower bound"
        caption += "; ε left of the budget then in force" if ledger else "; ε of a check"
        if thresholds:
            caption += f"; threshold {', '.join(thresholds)}"
        return table_of(
            (name for name, shown in columns.items() if shown),
            (
                (compress(_cells(point), columns.values()), _is_drift(point))
                for point in self.points
            ),
            left=_LEFT,
            caption=caption,
            title=title,
        )

    @property
    def _thresholds(self) -> list[str]:
        """The nats that were tolerated, each once."""
        return [f"{t:g}" for t in sorted({r.verdict.threshold for r in self.reports if r.verdict})]

    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        if self._rows_of_map:
            draw_heat_map(axes, self.points, theme, narrow=narrow)
        else:
            draw_checks(axes, self.points, theme, self.drift_from)

    def _dates(self) -> tuple[dict[int, str], str]:
        if not self.reports or not all(report.period for report in self.reports):
            return super()._dates()
        starts = {p.number: p.report.period.start for p in self.points if p.report}  # type: ignore[union-attr]
        utc = {n: f"{datetime.fromisoformat(at).isoformat()}+00:00" for n, at in starts.items()}
        return utc, "the start of its period"

    def _taller(self) -> float:
        return max(len(self._rows_of_map) - _USUAL_ROWS, 0) * _ROW

    @property
    def _rows_of_map(self) -> list[str]:
        return rows_of(self.points)


def _since(name: str, nights: Sequence[Report]) -> str:
    """Say since when a column has changed."""
    counts = [report.columns[name].counts for report in nights]
    last = counts[-1]
    if last is None or None in counts:
        return ""
    values = np.array([one.values for one in counts if one is not None], dtype=np.float64)
    change = lasting_change(values, Continual(nights[-1].cost.nights), last.noise)
    if change is None:
        return f"{name}: no lasting change since the first night is clear of the noise"
    night = nights[change.since - 1]
    how = "at once" if change.at_once else "more each night"
    return (
        f"{name}: changed {how}, most likely since night {night.cost.night} ({night.started[:10]})"
    )


def _is_drift(check: Point[Report]) -> bool:
    return check.report is not None and check.report.drifted


def _cells(check: Point[Report]) -> tuple[str, ...]:
    report = check.report
    if report is None:
        became = "failed" if check.ended else "not ended"
        truth = nats(check.population_truth)
        return (str(check.number), "", "", "", became, "–", truth, "–", "–", "–", "–", "–")
    reading = report.reading
    return (
        str(check.number),
        _drifted(report),
        report.key or "",
        f"{report.period.start} – {report.period.end}" if report.period else "",
        report.outcome or "–",
        str(reading.of_population or "none"),
        nats(check.population_truth),
        " – ".join(nats(bound) for bound in (report.lower_bound, report.upper_limit)),
        _cohorts(reading),
        f"{report.cost.charged:.3g}",
        report.cost.rest,
        f"{report.cohort.survivors}/{report.cohort.asked}",
    )


def _drifted(report: Report) -> str:
    """Write which columns of a table drifted, in brief."""
    names = drifted(report.columns) if report.is_table else []
    if report.is_table and not names:
        return f"0 of {len(report.columns)}"
    return some_of(names, _MOST_NAMES)


def _cohorts(reading: Reading) -> str:
    """Write the cohort's estimate: in brief, where there is one of the population."""
    own = reading.of_cohort
    return str(own) if reading.of_population is None else nats(own.value)
