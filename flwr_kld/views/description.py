"""Views of a description: a page, a plot, a table of numbers, or metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld.report.statistics_report import CAPTION, description_rows, numbers_of
from flwr_kld.report.words import when
from flwr_kld.views.document import Document
from flwr_kld.views.files import FORMATS, METRICS
from flwr_kld.views.page import pictures, render
from flwr_kld.views.panels import Theme
from flwr_kld.views.statistics_plot import draw_statistics, size_of
from flwr_kld.views.text import privacy


@dataclass(frozen=True)
class Description(Document):
    """What a `StatisticsReport` looks like.

    Parameters
    ----------
    report : StatisticsReport
        What clients' data look like.
    next_step : str
        What the text advises; by default how Python makes a reference of it.
    """

    next_step: str = ""

    heading: ClassVar[str] = "What clients' data look like"
    width: ClassVar[int] = 100  # long cells
    right: ClassVar[tuple[str, ...]] = ("values",)
    forms: ClassVar[tuple[str, ...]] = (*FORMATS, METRICS)

    def about(self) -> Iterator[str]:
        """Yield when it was asked, and whom."""
        report = self.report
        yield (
            f"Asked {when(report.started)} UTC, about {report.whom}: {report.records:,.0f} records "
            f"of {report.cohort}."
        )

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """Return of each column and group the values, and what they are."""
        return ("column", "values", "others", "what they are"), description_rows(
            self.report.columns
        )

    def notes(self) -> Iterator[str]:
        """Yield what intervals hold for, what can be done next, and who saw what."""
        yield CAPTION
        yield f"Next: {self._next}"
        yield f"Privacy: {privacy(self.report)}"
        if note := self.report.one_client.note:
            yield note

    @property
    def _next(self) -> str:
        made = f"as_reference(table) makes it the reference {self.report.reference[:12]}"
        return self.next_step or f"{made} of later checks."

    def numbers(self) -> Iterable[Mapping[str, Any]]:
        """Return one row a number of each column, and of each group: with its 95 % interval."""
        return (
            {
                "column": name,
                "group": group,
                "number": what,
                "value": one.value,
                "at_least": one.low,
                "at_most": one.high,
            }
            for name, column in self.report.columns.items()
            for group, own in column.by_group.items()
            for what, one in numbers_of(own)
        )

    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""
        return size_of(len(self.report.columns), narrow=narrow)

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw where the values of each column lie, with 95 % intervals.

        Of numbers: how dense records lie between the edges, the mean, and the shares beyond; of
        labels, the most frequent.
        """
        columns = {
            f"{name} ({column.unit})" if column.unit else name: column.statistics
            for name, column in self.report.columns.items()
        }
        draw_statistics(figure, columns, theme, narrow=narrow)

    def to_html(self, **around: Any) -> str:
        """Return a page that stands by itself, or in `around` of a live one."""
        return render(
            "description.html.j2",
            **{"title": self.heading, **around},
            report=self.report,
            last=self.report,
            what="description",
            views=self.report.protection.visibility.views,
            plots=pictures(self.plot),
            rows=list(description_rows(self.report.columns)),
            caption=CAPTION,
            next_step=self._next,
        )

    def save_metrics(self, file: Path) -> None:
        """Write Prometheus metrics of every column."""
        # Imported here: it needs the extra that writes them.
        from flwr_kld.views.prometheus import save_description

        columns = {name: column.by_group for name, column in self.report.columns.items()}
        save_description(
            self.report.cost.population or "default", self.report.records, columns, file
        )
