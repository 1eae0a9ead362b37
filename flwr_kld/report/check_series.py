"""Checks over time: their columns, their table, their page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld._extras import require
from flwr_kld.arguments import whole
from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.check_plot import draw_checks
from flwr_kld.report.gauge import Gauge
from flwr_kld.report.panels import Spend, Theme
from flwr_kld.report.render import add_up, pictures, render
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point, Rows, Series
from flwr_kld.report.sight import views, who_saw_what
from flwr_kld.report.words import left_of

_ELSEWHERE = ("started", "dropouts", "verdict", "outside", "movements", "candidates", "sight")
_COLUMNS = [field.name for field in fields(Report) if field.name not in _ELSEWHERE]
_COLUMNS += ["outcome", "lower_bound", "threshold", "outside_share", "outside_lower"]


class CheckSeries(Series[Report]):
    """Checks of one monitor.

    Above, in nats, their plot has estimates with two standard deviations either way, the lower
    confidence bound, the threshold, alarms, checks that failed or have not ended, and the truth
    where a simulation knows it.

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
        If `drift_from` is no number of a check.
    """

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

    def to_html(self, *, title: str = "", subtitle: str = "") -> str:
        """Return a self-contained page: the last decision first.

        Raises
        ------
        ImportError
            If jinja2 or matplotlib is not installed; names the extra.
        """
        from flwr_kld.report.explanation import (
            pattern_svg,  # brings scipy.stats, which clients do without
        )

        markupsafe = require("markupsafe", extra="plots")
        shown = next((c for c in reversed(self.points) if c.report), None)
        last, reports = shown and shown.report, self.reports

        def draw(file: Path, dark: bool, narrow: bool) -> None:
            self.plot(file, dark=dark, narrow=narrow)

        return render(
            "page.html.j2",
            title=title or self.heading,
            subtitle=subtitle,
            checks=self.points,
            shown=shown,
            last=last,
            missing=self.points[-1] if self.points and not self.points[-1].report else None,
            gauge=last and Gauge.of(last),
            plots=pictures(draw) if reports else [],
            views=last and views(last),
            truths=any(c.truth is not None for c in self.points),
            decided=any(r.verdict for r in reports),
            ledger=any(r.epsilon_left is not None for r in reports),
            reasons=add_up(r.dropouts for r in reports),
            models=[c for c in self.models if c.report],
            seen=who_saw_what,
            picture=lambda symbol: markupsafe.Markup(pattern_svg(symbol, side=72)),
        )

    @classmethod
    def _report_from(cls, values: Mapping[str, Any]) -> Report:
        return Report.from_dict(dict(values))

    def _columns(self) -> Mapping[str, Callable[[Report], Any]]:
        return {name: attrgetter(name) for name in _COLUMNS}

    def _rows(self) -> Rows:
        reports = self.reports
        decided = any(report.verdict for report in reports)
        columns = {
            "check": True,
            "key": any(report.key for report in reports),
            "decision": decided,
            "at least": decided,
            "estimate": True,
            "truth": any(c.truth is not None for c in self.points),
            "ε": True,
            "left": any(report.epsilon_left is not None for report in reports),
            "clients": True,
        }
        thresholds = sorted({r.threshold for r in reports if r.threshold is not None})
        caption = "nats; estimates ± s.d.; ε of a check"
        if columns["left"]:
            caption += ", and left of the budget then in force"
        if thresholds:
            caption += f"; threshold {', '.join(f'{t:g}' for t in thresholds)}"
        return Rows(
            columns={name: name in ("key", "decision") for name, shown in columns.items() if shown},
            rows=[list(compress(_cells(c), columns.values())) for c in self.points],
            marked=[
                c.report is not None and c.report.outcome is Outcome.DRIFT for c in self.points
            ],
            caption=caption,
        )

    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        draw_checks(axes, self.points, theme, self.drift_from)

    def _spend(self, number: int, report: Report) -> Spend:
        return Spend(number, report.delivered, report.epsilon_left, report.epsilon_budget)


def _cells(check: Point[Report]) -> tuple[str, ...]:
    report = check.report
    if report is None:
        ended = "none" if check.ended else "not ended"
        return (str(check.number), "", ended, "–", "none", _nats(check.truth), "–", "–", "–")
    estimate = "none" if report.estimate is None else f"{report.estimate:z.3f} ± {report.error:.3f}"
    return (
        str(check.number),
        report.key or "",
        report.outcome or "–",
        _nats(report.lower_bound),
        estimate,
        _nats(check.truth),
        f"{report.delivered:.3g}",
        left_of(report.epsilon_left, report.epsilon_budget),
        f"{report.survivors}/{report.asked}",
    )


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"
