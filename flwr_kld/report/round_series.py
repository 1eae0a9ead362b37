"""A predictor's rounds over time: their columns, their table, their page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld.report.panels import Spend, Theme
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.render import add_up, pictures, render
from flwr_kld.report.round_plot import candidates_of, draw_rounds
from flwr_kld.report.series import Point, Rows, Series
from flwr_kld.report.sight import LOCAL_VIEWS
from flwr_kld.report.words import left_of

_ELSEWHERE = ("started", "weights", "mixture", "rejected")
_COLUMNS = [field.name for field in fields(PredictorReport) if field.name not in _ELSEWHERE]


class RoundSeries(Series[PredictorReport]):
    """Rounds of one predictor.

    Above, their plot has the weights, stacked, so that a change of what clients follow is a change
    of colour; where the leader changed, and rounds without a report, are marked.
    """

    what: ClassVar[str] = "round"
    heading: ClassVar[str] = "Rounds of a predictor"
    _facts: ClassVar[tuple[str, ...]] = ("started", "ended", "failure")

    def to_html(self, *, title: str = "", subtitle: str = "") -> str:
        """Return a self-contained page: what clients follow, and how surely.

        Raises
        ------
        ImportError
            If jinja2 or matplotlib is not installed; names the extra.
        """
        shown = next((r for r in reversed(self.points) if r.report), None)
        reports = self.reports

        def draw(file: Path, dark: bool, narrow: bool) -> None:
            self.plot(file, dark=dark, narrow=narrow)

        return render(
            "predictor.html.j2",
            title=title or self.heading,
            subtitle=subtitle,
            rounds=self.points,
            shown=shown,
            last=shown and shown.report,
            missing=self.points[-1] if self.points and not self.points[-1].report else None,
            plots=pictures(draw) if self.points else [],
            views=LOCAL_VIEWS,
            bounded=any(r.risk_bound is not None for r in reports),
            ledger=any(r.epsilon_left is not None for r in reports),
            reasons=add_up(r.rejected for r in reports),
        )

    @classmethod
    def _report_from(cls, values: Mapping[str, Any]) -> PredictorReport:
        return PredictorReport.from_dict(dict(values))

    def _columns(self) -> Mapping[str, Callable[[PredictorReport], Any]]:
        def weight_of(name: str) -> Callable[[PredictorReport], Any]:
            return lambda report: report.weights.get(name)

        weights = {f"weight of {name}": weight_of(name) for name in candidates_of(self.points)}
        return {**{name: attrgetter(name) for name in _COLUMNS}, **weights}

    def _rows(self) -> Rows:
        names = ("round", "leader", "weight", "log-odds", "lies", "ε", "left", "reports")
        return Rows(
            columns={name: name == "leader" for name in names},
            rows=[_cells(point) for point in self.points],
            marked=[False] * len(self.points),
            caption=(
                "nats; lies that the leader outlasts; ε of a round, and left of the budget then in "
                "force"
            ),
        )

    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        draw_rounds(axes, self.points, theme, longest=18 if narrow else 32)

    def _spend(self, number: int, report: PredictorReport) -> Spend:
        return Spend(number, report.epsilon, report.epsilon_left, report.epsilon_budget)


def _cells(point: Point[PredictorReport]) -> tuple[str, ...]:
    report = point.report
    if report is None:
        return (str(point.number), "none" if point.ended else "not ended", *["–"] * 6)
    return (
        str(point.number),
        report.leader,
        f"{report.weights[report.leader]:.1%}",
        f"{report.log_odds:.2f}",
        f"{report.outlasts:,}",
        f"{report.epsilon:.3g}",
        left_of(report.epsilon_left, report.epsilon_budget),
        f"{report.taken}/{report.asked}",
    )
