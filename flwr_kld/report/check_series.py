"""Checks over time: their columns, their table, their page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

from flwr_kld._extras import require
from flwr_kld.inference.verdict import Outcome
from flwr_kld.kernel.arguments import whole
from flwr_kld.report.check_plot import draw_checks
from flwr_kld.report.check_values import OF_COLUMN, VALUES
from flwr_kld.report.column_pictures import column_pictures
from flwr_kld.report.columns_table import drifted
from flwr_kld.report.entries import is_check, numbered, point_of, report_of
from flwr_kld.report.heat_map import draw_heat_map, rows_of
from flwr_kld.report.panels import Theme
from flwr_kld.report.reading import Reading
from flwr_kld.report.render import LAYOUT, Picture, add_up, render
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point, Rows, Series
from flwr_kld.report.sight import views
from flwr_kld.report.words import alarm_lines, evidence, guarantees, how_sure

if TYPE_CHECKING:
    from flwr_kld.accounting import Ledger
    from flwr_kld.accounting.entry import Entry

_LEFT = ("drifted", "key", "decision")
_USUAL_ROWS, _ROW = 14, 0.18
"""Columns of a table that a plot of the usual height has room for; inches of each further one."""
_NAMED = 2
"""Columns of a table that a line names."""
_ROOM = 1.15
"""Length of a gauge over the largest number on it."""


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
    models : Iterable[Point]
        One check in each trust model, to be shown side by side on the page.

    Raises
    ------
    ValueError
        If `drift_from` is not the number of a check.
    """

    _of = Report
    what: ClassVar[str] = "check"
    heading: ClassVar[str] = "Drift checks"

    def __init__(
        self,
        points: Iterable[Point[Report] | Report | None],
        *,
        drift_from: int | None = None,
        models: Iterable[Point[Report]] = (),
    ) -> None:
        super().__init__(points)
        self.drift_from = None if drift_from is None else whole("drift_from", drift_from, least=1)
        self.models = tuple(models)

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
            point_of(number, entry, read(entry))
            for number, entry in numbered(entries, before)
            if is_check(entry)
        )

    def page(self, *, plots: Sequence[Picture], layout: str = LAYOUT, **around: Any) -> str:
        """Return a page with these pictures: the last decision first; see `Series.page`."""
        from flwr_kld.report.explanation.cells import pattern_svg

        markupsafe = require("markupsafe", extra="plots")
        shown = next((c for c in reversed(self.points) if c.report), None)
        last, reports = shown and shown.report, self.reports
        return render(
            "page.html.j2",
            layout=layout,
            **around,
            checks=self.points,
            shown=shown,
            last=last,
            missing=self.points[-1] if self.points and not self.points[-1].report else None,
            gauge=last and Gauge.of_report(last),
            columns=list(column_pictures(last)) if last else [],
            plots=plots,
            views=last and views(last),
            truths=any(c.population_truth is not None for c in self.points),
            highest=-math.log(last.reading.theta) if last and last.reading.theta else None,
            alarm_lines=alarm_lines,
            evidence=evidence,
            guarantees=guarantees,
            how_sure=how_sure,
            decided=any(r.verdict for r in reports),
            ledger=any(r.cost.left is not None for r in reports),
            reasons=add_up(r.cohort.dropouts for r in reports),
            models=[c for c in self.models if c.report],
            picture=lambda symbol: markupsafe.Markup(pattern_svg(symbol, side=72)),
        )

    def _columns(self) -> Mapping[str, Callable[[Report], Any]]:
        tables = any(report.columns for report in self.reports)
        return {**OF_COLUMN, **VALUES} if tables else VALUES

    def _parts(self, report: Report) -> Iterable[Report]:
        return report.by_column

    def _rows(self) -> Rows:
        reports = self.reports
        decided = any(report.verdict for report in reports)
        known = any(report.reading.of_population for report in reports)
        ledger = any(report.cost.left is not None for report in reports)
        columns = {
            "check": True,
            "drifted": any(report.columns for report in reports),
            "key": any(report.key for report in reports),
            "decision": decided,
            "population": known,
            "truth": any(c.population_truth is not None for c in self.points),
            "bounds": decided,
            "cohort": not known or not any(report.key for report in reports),
            "ε": not ledger,
            "ε left": ledger,
            "clients": True,
        }
        thresholds = sorted({r.verdict.threshold for r in reports if r.verdict})
        caption = "KL(reference ‖ clients) in nats: estimates ± s.d."
        if known:
            caption += " of the population that the clients were drawn from"
        if columns["cohort"]:
            caption += f"{' and' if known else ''} of the cohort's own records"
        if decided:
            levels = sorted({r.verdict.level for r in reports if r.verdict})
            sure = ", ".join(f"{100 * level:g} %" for level in levels)
            caption += (
                f"; bounds: the population's is at least–at most, with probability {sure} each"
            )
        if columns["drifted"]:
            caption += "; numbers of a table are those of the column that moved most"
        caption += "; ε left of the budget then in force" if ledger else "; ε of a check"
        if thresholds:
            caption += f"; threshold {', '.join(f'{t:g}' for t in thresholds)}"
        return Rows(
            columns={name: name in _LEFT for name, shown in columns.items() if shown},
            rows=[list(compress(_cells(c), columns.values())) for c in self.points],
            marked=[
                c.report is not None and c.report.outcome is Outcome.DRIFT for c in self.points
            ],
            caption=caption,
        )

    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        if self._rows_of_map:
            draw_heat_map(axes, self.points, theme, narrow=narrow)
        else:
            draw_checks(axes, self.points, theme, self.drift_from)

    def _taller(self) -> float:
        return max(len(self._rows_of_map) - _USUAL_ROWS, 0) * _ROW

    @property
    def _rows_of_map(self) -> list[str]:
        return rows_of(self.points)


def _cells(check: Point[Report]) -> tuple[str, ...]:
    report = check.report
    if report is None:
        became = "failed" if check.ended else "not ended"
        truth = _nats(check.population_truth)
        return (str(check.number), "", "", became, "–", truth, "–", "–", "–", "–", "–")
    reading = report.reading
    return (
        str(check.number),
        _drifted(report),
        report.key or "",
        report.outcome or "–",
        str(reading.of_population or "none"),
        _nats(check.population_truth),
        "–".join(_nats(bound) for bound in (report.lower_bound, report.upper_limit)),
        _cohorts(reading),
        f"{report.cost.epsilon:.3g}",
        report.cost.rest,
        f"{report.cohort.survivors}/{report.cohort.asked}",
    )


def _drifted(report: Report) -> str:
    """Write which columns of a table drifted, in brief."""
    names = drifted(report.columns)
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return listed if names or not report.columns else f"0 of {len(report.columns)}"


def _cohorts(reading: Reading) -> str:
    """Write the cohort's estimate: in brief, where there is one of the population."""
    own = reading.of_cohort
    if own is None or reading.of_population is None:
        return str(own or "none")
    return _nats(own.value)


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"


@dataclass(frozen=True)
class Mark:
    """A number on the scale."""

    nats: float  # The number, in nats
    at: float  # Its place, in per cent
    anchor: str  # SVG ``text-anchor`` that keeps its label inside the picture


@dataclass(frozen=True)
class Gauge:
    """The scale of one check, from 0 nats; all but the cohort's estimate is the population's."""

    threshold: Mark  # Beyond it, a lower bound is a drift
    # Lower bound and upper limit; None if there is none. The limit may lie beyond the scale.
    bound: Mark | None
    limit: Mark | None
    # The population's, or the cohort's where that is all; None if there is none
    estimate: Mark | None
    of: str  # Whose estimate that is
    error: tuple[float, float]  # Two standard deviations either way of the estimate, in per cent

    @classmethod
    def of_report(cls, report: Report) -> Gauge | None:
        """Lay out a report's numbers; None if it decided nothing."""
        verdict = report.verdict
        if verdict is None:
            return None
        told = report.reading.told
        low, middle, high = (
            (told.value - 2 * told.deviation, told.value, told.value + 2 * told.deviation)
            if told
            else (0.0, 0.0, 0.0)
        )
        numbers = (verdict.threshold, report.lower_bound or 0.0, high)
        highest = max(*numbers, 1e-9)

        def place(nats: float) -> float:
            return 100 * min(max(nats / (_ROOM * highest), 0.0), 1.0)

        def mark(nats: float) -> Mark:
            at = place(nats)
            return Mark(nats, at, "start" if at < 20 else "end" if at > 80 else "middle")

        bound, limit = report.lower_bound, report.upper_limit
        return cls(
            threshold=mark(verdict.threshold),
            bound=None if bound is None else mark(bound),
            limit=None if limit is None else mark(limit),
            estimate=mark(middle) if told else None,
            of=told.of if told else "",
            error=(place(low), place(high)),
        )
