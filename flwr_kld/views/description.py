"""Views of a description: a page, a plot, a table of numbers, or metrics."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import Any

from flwr_kld.common.extras import require
from flwr_kld.report.statistics_report import (
    CAPTION,
    StatisticsReport,
    description_rows,
    numbers_of,
    statistics_table,
)
from flwr_kld.report.words import as_text
from flwr_kld.views.page import pictures, render
from flwr_kld.views.series import FORMATS, require_form, write_form
from flwr_kld.views.statistics_plot import draw_statistics
from flwr_kld.views.text import privacy, when

_WIDTH = 100
"""Characters of a line: tables of descriptions have long cells."""


@dataclass(frozen=True)
class Description:
    """What a `StatisticsReport` looks like.

    Parameters
    ----------
    report : StatisticsReport
        What clients' data look like.
    """

    report: StatisticsReport

    def lines(self, width: int = _WIDTH) -> Iterator[str]:
        """Yield it in lines."""
        report = self.report
        yield report.summary
        yield from wrap(
            f"Asked {when(report.started)} UTC, about {report.whom}: {report.records:,.0f} records "
            f"of {report.cohort}.",
            width,
        )
        yield from as_text(statistics_table(report.columns), width=width).splitlines()
        made = f"as_reference(table) makes it the reference {report.reference[:12]}"
        yield f"Next: {made} of later checks."
        yield from wrap(f"Privacy: {privacy(report)}", width)
        if note := report.one_client.note:
            yield from wrap(note, width)

    def to_frame(self) -> Any:
        """Return the rows of `to_csv` as a pandas data frame."""
        return require("pandas", extra="frames").read_csv(StringIO(self.to_csv()))

    def plot(
        self,
        file: str | Path | None = None,
        *,
        title: str = "",
        dark: bool = False,
        narrow: bool = False,
    ) -> Any:
        """Draw where the values of each column lie, into a file if one is given; return the figure.

        Of numbers: how dense records lie between the edges, the mean, and the shares beyond; of
        labels, the most frequent; with 95 % intervals.
        """
        columns = {
            f"{name} ({column.unit})" if column.unit else name: column.statistics
            for name, column in self.report.columns.items()
        }
        return draw_statistics(columns, file, title=title, dark=dark, narrow=narrow)

    def to_html(self, **around: Any) -> str:
        """Return a page that stands by itself, or in `around` of a live one."""
        return render(
            "description.html.j2",
            **{"title": "What clients' data look like", **around},
            report=self.report,
            last=self.report,
            what="description",
            views=self.report.protection.visibility.views,
            plots=pictures(self.plot),
            rows=list(description_rows(self.report.columns)),
            caption=CAPTION,
        )

    def to_csv(self) -> str:
        """Return one row a number of each column, and of each group: with its 95 % interval."""
        text = StringIO()
        rows = csv.writer(text)
        rows.writerow(["column", "group", "number", "value", "at_least", "at_most"])
        for name, column in self.report.columns.items():
            for group, own in column.by_group.items():
                for what, one in numbers_of(own):
                    rows.writerow([name, group, what, one.value, one.low, one.high])
        return text.getvalue()

    def to_json(self) -> str:
        """Return the report in full."""
        return self.report.to_json()

    def save(self, file: str | Path) -> None:
        """Write a file; its ending says what: a page, a plot, a table, all in full, or metrics.

        Raises
        ------
        ValueError
            If it ends in none of .html, .png, .svg, .csv, .json and .prom.
        """
        file = self.require_form(file)
        if file.suffix == ".prom":
            # Imported here: it needs the extra that writes them.
            from flwr_kld.views.prometheus import save_description

            columns = {name: column.by_group for name, column in self.report.columns.items()}
            save_description(
                self.report.cost.population or "default", self.report.records, columns, file
            )
        else:
            write_form(self, file)

    @staticmethod
    def require_form(file: str | Path) -> Path:
        """Raise ValueError unless `save` knows what a file's ending asks for; return the file."""
        return require_form(file, (*FORMATS, ".prom"))
