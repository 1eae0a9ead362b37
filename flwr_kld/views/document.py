"""Views of a single report: a sentence, a table and notes, as text, page, plot, frame and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from flwr_kld.common.json_text import json_text
from flwr_kld.report.words import as_text, table_of, wrapped
from flwr_kld.views.files import Kept
from flwr_kld.views.page import pictures, render
from flwr_kld.views.panels import Theme, tidy
from flwr_kld.views.text import WIDTH


@dataclass(frozen=True)
class Document(Kept):
    """What a report looks like.

    Parameters
    ----------
    report : Viewed
        What came out.
    """

    report: Any
    heading: ClassVar[str]
    """Title where none is given."""
    width: ClassVar[int] = WIDTH
    """Characters of a line."""
    right: ClassVar[tuple[str, ...]] = ()
    """Heads of the columns of numbers."""

    @abstractmethod
    def about(self) -> Iterable[str]:
        """Return what is said before the table."""

    @abstractmethod
    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """Return heads and rows of the table, in words."""

    @abstractmethod
    def notes(self) -> Iterable[str]:
        """Return what is said after the table."""

    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""
        return (3.9 if narrow else 8.6), 1.1 + 0.24 * max(len(list(self.table()[1])), 1)

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield it in lines."""
        width = width or self.width
        heads, rows = self.table()
        left = [head for head in heads if head not in self.right]
        table = table_of(heads, ((row, False) for row in rows), left=left)
        for sentence in (self.report.summary, *self.about()):
            yield from wrapped(sentence, width)
        yield from as_text(table, width=width).splitlines()
        for sentence in self.notes():
            yield from wrapped(sentence, width)

    def to_html(self, **around: Any) -> str:
        """Return a page that stands by itself, or in `around` of a live one."""
        heads, rows = self.table()
        return render(
            "document.html.j2",
            **{"title": self.heading, **around},
            summary=self.report.summary,
            about=list(self.about()),
            heads=heads,
            rows=list(rows),
            notes=list(self.notes()),
            plots=pictures(self.plot),
        )

    def to_json(self) -> str:
        """Return the report in full."""
        return json_text(self.report.to_dict(), indent=2, sort_keys=True)


@contextmanager
def rows_of(
    figure: Any, names: Sequence[str], theme: Theme, *, narrow: bool
) -> Iterator[tuple[Any, Sequence[int]]]:
    """Yield a panel with a row for each name, and the height of each row."""
    axes, places = figure.subplots(), range(0, -len(names), -1)
    yield axes, places
    axes.set_yticks(places, names)
    axes.set_ylim(-max(len(names), 1) + 0.4, 0.6)
    axes.grid(axis="x", color=theme.faint, alpha=0.25)
    axes.tick_params(axis="y", length=0)
    tidy(axes, theme, narrow)
