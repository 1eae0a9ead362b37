"""A predictor's rounds over time: their columns, their table, their page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from flwr_kld.report.entries import point_of, round_report
from flwr_kld.report.panels import Theme
from flwr_kld.report.predictor_report import PredictorReport, round_of
from flwr_kld.report.render import LAYOUT, Picture, add_up, render
from flwr_kld.report.round_plot import candidates_of, draw_rounds
from flwr_kld.report.series import Point, Rows, Series
from flwr_kld.report.sight import LOCAL_VIEWS

if TYPE_CHECKING:
    from flwr_kld.accounting.entry import Entry

_PATHS = {
    "name": "name", "round": "round", "leader": "reading.leader", "log_odds": "reading.log_odds",
    "swing": "reading.swing", "outlasts": "reading.outlasts", "risk_bound": "reading.risk_bound",
    "refuted": "reading.refuted",
    "epsilon": "guarantee.epsilon", "delta": "guarantee.delta", "epsilon_left": "cost.left",
    "asked": "cohort.asked", "taken": "cohort.survivors", "reports": "reading.reports",
    "seconds": "cost.seconds", "asking": "cost.asking", "waiting": "cost.waiting",
    "computing": "cost.computing", "epsilon_budget": "cost.budget",
}  # fmt: skip
"""What files have a column of, and where a report holds it."""


class RoundSeries(Series[PredictorReport]):
    """Rounds of one predictor.

    Above, their plot has the weights, stacked, so that a change of what clients follow is a change
    of colour; where the leader changed, and rounds without a report, are marked.
    """

    _of = PredictorReport
    what: ClassVar[str] = "round"
    heading: ClassVar[str] = "Rounds of a predictor"
    _facts: ClassVar[tuple[str, ...]] = ("started", "ended", "failure")

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> RoundSeries:
        """Return a ledger's entries that are one predictor's rounds, numbered as it does."""
        return cls(
            point_of(round_of(entry.key)[1], entry, round_report(entry)) for entry in entries
        )

    def page(self, *, plots: Sequence[Picture], layout: str = LAYOUT, **around: Any) -> str:
        """Return a page with these pictures: what clients follow, and how surely."""
        shown = next((r for r in reversed(self.points) if r.report), None)
        reports = self.reports
        return render(
            "predictor.html.j2",
            layout=layout,
            **around,
            rounds=self.points,
            shown=shown,
            last=shown and shown.report,
            missing=self.points[-1] if self.points and not self.points[-1].report else None,
            plots=plots,
            views=LOCAL_VIEWS,
            bounded=any(r.reading.risk_bound is not None for r in reports),
            ledger=any(r.cost.left is not None for r in reports),
            reasons=add_up(r.cohort.dropouts for r in reports),
        )

    def _columns(self) -> Mapping[str, Callable[[PredictorReport], Any]]:
        def weight_of(name: str) -> Callable[[PredictorReport], Any]:
            return lambda report: report.reading.weights.get(name)

        weights = {f"weight of {name}": weight_of(name) for name in candidates_of(self.points)}
        return {**{name: attrgetter(path) for name, path in _PATHS.items()}, **weights}

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


def _cells(point: Point[PredictorReport]) -> tuple[str, ...]:
    report = point.report
    if report is None:
        return (str(point.number), "none" if point.ended else "not ended", *["–"] * 6)
    learnt = report.reading
    return (
        str(point.number),
        learnt.led_by,
        f"{learnt.weights[learnt.leader]:.1%}",
        f"{learnt.log_odds:.2f}",
        f"{learnt.outlasts:,}",
        f"{report.cost.epsilon:.3g}",
        report.cost.rest,
        f"{report.cohort.survivors}/{report.cohort.asked}",
    )
