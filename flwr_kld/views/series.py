"""Reports over time, and the ways to look at them: table, page, plot and files.

``CheckSeries(monitor.reports.values()).save("report.html")`` writes a page of all checks.
A notebook shows a series as a table.
"""

from __future__ import annotations

import html
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Self

from rich.table import Table

from flwr_kld.common.json_text import json_text
from flwr_kld.kernel.arguments import instance
from flwr_kld.report.envelope import CostSummary, Point, R
from flwr_kld.report.report import Report
from flwr_kld.report.words import as_text, counted
from flwr_kld.trust.visibility import View
from flwr_kld.views.files import Kept
from flwr_kld.views.page import add_up, pictures, render
from flwr_kld.views.panels import (
    Theme,
    draw_spend,
    has_spend,
    label_numbers,
    same_spend,
    size_of_panels,
    two_panels,
)

_ANYBODY = View(
    "readers of this page, reports and metrics", "what the guarantee allows, whatever they do"
)

_NETWORK = View("the network, where TLS is off", "what the server sees")

LOCAL_VIEWS = (
    _ANYBODY,
    View("the server", "one privatised symbol of each asked client: it is trusted with nothing"),
    View("another client", "nothing"),
    _NETWORK,
)
"""What everybody sees of a predictor's round, those who see least first."""


def views(report: Report) -> tuple[View, ...]:
    """Return what each party saw of a check, those who see least first."""
    return (_ANYBODY, *report.protection.visibility.views, _NETWORK)


_TRUTHS = ("population_truth", "cohort_truth")
"""Attributes of a point that a simulation knows; of each column of a table, `Point.truths`."""


class Series(Kept, Generic[R]):
    """Reports in order: a `CheckSeries` or a `RoundSeries`."""

    _of: type[R]
    what: ClassVar[str]
    """What a point is, for people."""
    heading: ClassVar[str]
    """Title where none is given."""
    _template: ClassVar[str]
    """Of its page."""
    _facts: ClassVar[tuple[str, ...]] = (
        "started", "ended", *_TRUTHS, "failure",
    )  # fmt: skip
    """Attributes of a point that files have beside its number and its report."""

    def __init__(self, points: Iterable[Point[R] | R | None]) -> None:
        instance(
            "points",
            points,
            Iterable,
            "reports in order, such as monitor.reports.values(); of a ledger: from_ledger(ledger)",
        )
        self.points: tuple[Point[R], ...] = tuple(
            point if isinstance(point, Point) else Point(number, point)
            for number, point in enumerate(points, 1)
        )

    def __repr__(self) -> str:
        last = f", the last: {self.reports[-1].summary}" if self.reports else ""
        return f"<{type(self).__name__} of {counted(len(self), self.what)}{last}>"

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point[R]]:
        return iter(self.points)

    @property
    def reports(self) -> list[R]:
        """What came out, in order."""
        return [point.report for point in self.points if point.report is not None]

    # -------------------------------------------------------------------------------- to look at

    @abstractmethod
    def table(self, *, title: str = "") -> Table:
        """Return a table for a terminal, oldest first."""

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return f"<pre>{html.escape(as_text(self.table(title=self.heading), width=120))}</pre>"

    @property
    def _spent(self) -> dict[int, CostSummary]:
        return {p.number: p.report.cost for p in self.points if p.report}

    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""
        return size_of_panels(narrow, taller=self._taller(), spend=has_spend(self._spent))

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw the series over its spend.

        Points without a report leave a gap, marked at the foot.

        Below are epsilon of each point, if it is not always the same, and what the window had
        spent of the budget that was in force, if there is a ledger.
        """
        spent, taller = self._spent, self._taller()
        panels = two_panels(figure, theme, narrow, taller=taller, spend=has_spend(spent))
        with panels as (above, below):
            self._draw(above, theme, narrow=narrow)
            if below is not above:
                draw_spend(below, spent, self.what, theme)
            numbers, (dates, by) = [p.number for p in self.points], self._dates()
            label_numbers(below, numbers, dates, self.what, by, narrow=narrow)
            if same := same_spend(spent):
                below.set_xlabel(f"{below.get_xlabel()}; {same}")

    def _dates(self) -> tuple[dict[int, str], str]:
        """Return the moment of each number on the axis, and what it is of."""
        started = {p.number: p.started for p in self.points if p.started is not None}
        return started, "its start in UTC"

    def to_html(self, *, title: str = "", subtitle: str = "", **around: Any) -> str:
        """Return a page that stands by itself, or in `around` of a live one: news come first."""
        last = next((point for point in reversed(self.points) if point.report), None)
        missing = self.points[-1] if self.points and not self.points[-1].report else None
        return render(
            self._template,
            **around,
            title=title or self.heading,
            subtitle=subtitle,
            plots=pictures(self.plot) if len(self.reports) > 1 else [],
            points=self.points,
            shown=last,
            last=last and last.report,
            missing=missing,
            ledger=any(report.cost.left is not None for report in self.reports),
            reasons=add_up(report.cohort.dropouts for report in self.reports),
            **self._page_values(),
        )

    @abstractmethod
    def _page_values(self) -> dict[str, Any]:
        """Return further values of the page of such a series."""

    # ------------------------------------------------------------------------------------ to keep

    def numbers(self) -> Iterator[dict[str, Any]]:
        """Yield one row a point: all numbers and texts of its report, and when it was.

        Checks of a table have one row for each of its columns.
        """
        for point in self.points:
            facts = {"number": point.number, **{name: getattr(point, name) for name in self._facts}}
            for report in [{}] if point.report is None else self._parts(point.report):
                own = point.truths.get(report.get("column", ""))
                known = {} if own is None else dict(zip(_TRUTHS, own, strict=True))
                yield {**facts, **known, **dict(_flat(report))}

    def to_json(self) -> str:
        """Return all reports in full."""
        content = [
            {
                "round": point.number,
                **{name: getattr(point, name) for name in self._facts},
                **{
                    f"{kind}s": {name: truth[place] for name, truth in point.truths.items()}
                    for place, kind in enumerate(_TRUTHS if point.truths else ())
                },
                "report": point.report and point.report.to_dict(),
            }
            for point in self.points
        ]
        return json_text(content, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(map(cls.point_from, json.loads(text)))

    @classmethod
    def point_from(cls, values: Mapping[str, Any]) -> Point[R]:
        """Read one element of what `to_json` wrote, or a line of a simulation."""
        report = values["report"]
        return Point(
            int(values["round"]),
            None if report is None else cls._of.from_dict(report),
            **{name: values[name] for name in cls._facts if name in values},
        )

    # ------------------------------------------------------------------------ what its kind says

    def _parts(self, report: R) -> Iterable[Mapping[str, Any]]:
        """Return what of a report has a row of its own."""
        return [report.content()]

    def _taller(self) -> float:
        """Return the height that the upper panel has beyond the usual one, in inches."""
        return 0.0

    @abstractmethod
    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw the upper panel of the plot."""


_LONG = ("dropouts", "over", "evidence")
"""Parts of a report that have clients' own words for names, or are no results: no columns."""


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts of a report by their places in it: ``reading.estimate``."""
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in _LONG:
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, Mapping | list | tuple):
            yield before + name, value
