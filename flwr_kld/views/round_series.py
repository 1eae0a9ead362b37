"""A predictor's rounds over time: their columns, their table, their page, their plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from flwr_kld.report.entries import point_of, read_report
from flwr_kld.report.envelope import Point
from flwr_kld.report.predictor_report import PredictorReport, round_of
from flwr_kld.report.words import shortened, table_of, when, wrapped
from flwr_kld.views.panels import Theme, mark, mark_missing
from flwr_kld.views.series import LOCAL_VIEWS, Series
from flwr_kld.views.text import WIDTH, budget

if TYPE_CHECKING:
    from flwr_kld.ledger.entry import Entry

_COLOURS: Final = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
)  # fmt: skip
"""Of Okabe and Ito, which colour-blind readers tell apart; candidates beyond share a grey."""


def draw_rounds(
    axes: Any, rounds: Sequence[Point[PredictorReport]], theme: Theme, longest: int
) -> None:
    """Draw the weights, stacked, and mark where the leader changed."""
    reports = [(r.number, r.report) for r in rounds if r.report]
    _draw_weights(axes, rounds, theme, longest)
    changes = [
        n for (_, old), (n, new) in pairwise(reports) if old.reading.leader != new.reading.leader
    ]
    mark(axes, changes, 0.97, color=theme.alarm, marker="v", label="another leader")
    mark_missing(axes, rounds, "failed: nothing learnt", theme)
    axes.set_ylabel("weight of each candidate")
    axes.set_ylim(0, 1.08)  # room for the marks
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _draw_weights(
    axes: Any, rounds: Sequence[Point[PredictorReport]], theme: Theme, longest: int
) -> None:
    """Stack the weights in the candidates' own order, the least of too many as one."""
    named = (name for r in rounds if r.report for name in r.report.reading.weights)
    names = list(dict.fromkeys(named))
    if not names:
        return
    edges, weights = _steps(rounds, names)
    peak = np.nanmax(weights, axis=1)
    shown = np.sort(np.argsort(-peak, kind="stable")[: len(_COLOURS)])
    layers = [
        (shortened(names[j], longest), colour, weights[j])
        for j, colour in zip(shown, _COLOURS, strict=False)
    ]
    if len(names) > len(shown):
        rest = np.delete(weights, shown, axis=0).sum(axis=0)
        layers.append((f"{len(names) - len(shown)} others", theme.spend, rest))
    floor = np.zeros(len(edges))
    for name, colour, layer in layers:
        axes.fill_between(
            edges, floor, floor + layer, label=name, facecolor=colour, edgecolor=theme.ground,
            linewidth=0.6,
        )  # fmt: skip
        floor = floor + layer


def _steps(
    rounds: Sequence[Point[PredictorReport]], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of each round on the axis, [2 R], and the weights there, [K, 2 R]; NaN in gaps."""
    number = np.array([r.number for r in rounds], dtype=np.float64)
    weights = np.array(
        [
            [r.report.reading.weights.get(n, 0.0) if r.report else np.nan for n in names]
            for r in rounds
        ]
    )
    return np.repeat(number, 2) + np.tile([-0.5, 0.5], len(number)), np.repeat(weights.T, 2, axis=1)


class RoundSeries(Series[PredictorReport]):
    """Rounds of one predictor.

    Above, their plot has the weights, stacked, so that a change of what clients follow is a change
    of colour; where the leader changed, and rounds without a report, are marked.
    """

    _of = PredictorReport
    what: ClassVar[str] = "round"
    heading: ClassVar[str] = "Rounds of a predictor"
    _template = "predictor.html.j2"
    _facts: ClassVar[tuple[str, ...]] = ("started", "ended", "failure")

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> RoundSeries:
        """Return a ledger's entries that are one predictor's rounds, numbered as it does."""
        return cls(
            point_of(round_of(entry.key)[1], entry, read_report(entry, PredictorReport))
            for entry in entries
        )

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the last round in lines."""
        report = self.reports[-1]
        yield report.summary
        yield from wrapped(str(report.reading), width)
        yield from wrapped(
            f"Asked {when(report.started)} UTC: {report.cohort}, each hidden at "
            f"ε = {report.guarantee.epsilon:g}. {budget(report.cost)}",
            width,
        )

    def _page_values(self) -> dict[str, Any]:
        return {"views": LOCAL_VIEWS}

    def table(self, *, title: str = "") -> Table:
        """Return a table for a terminal, oldest first."""
        return table_of(
            ("round", "leader", "weight", "log-odds", "lies", "ε", "ε left", "reports"),
            ((_cells(point), False) for point in self.points),
            left=("leader",),
            caption="nats; lies that the leader outlasts; ε of a round, and left of the budget",
            title=title,
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
