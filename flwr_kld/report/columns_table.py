"""A table's columns in lines: those that moved most first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from io import StringIO

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.column_report import ColumnReport

MARKS = {Outcome.DRIFT: "▲", Outcome.INCONCLUSIVE: "?", Outcome.NO_DRIFT: "✓", None: "–"}
"""Shapes that say what colours say, too."""
_MOST = 20
"""Columns that a terminal shows, unless more have drifted."""


def drifted(columns: Mapping[str, ColumnReport]) -> list[str]:
    """Names of the columns that have drifted, in their order."""
    return [name for name, column in columns.items() if column.outcome is Outcome.DRIFT]


def columns_table(columns: Mapping[str, ColumnReport]) -> Table:
    """Return a table for a terminal: verdict, divergence, fraction outside, and what moved."""
    shown = max(_MOST, len(drifted(columns)))
    table = Table(
        caption=_caption(list(columns.values())[shown:]), box=SIMPLE, padding=(0, 1, 0, 0),
        pad_edge=False, show_edge=False,
    )  # fmt: skip
    for name in ("column", "decision", "D in nats"):
        table.add_column(name, overflow="fold", min_width=len(name))
    outside = any(column.reading.outside for column in columns.values())
    if outside:
        table.add_column("outside", justify="right")
    table.add_column("what moved", overflow="fold", ratio=1)
    for name, column in list(columns.items())[:shown]:
        share = column.reading.outside
        told = column.reading.told
        cells = (
            name,
            f"{MARKS[column.outcome]} {column.outcome or 'not decided'}",
            str(told or "none"),
            *([f"{100 * share.share:.1f} %" if share else "–"] if outside else []),
            column.sentence or "",
        )
        style = "bold red" if column.outcome is Outcome.DRIFT else ""
        table.add_row(*map(escape, cells), style=style)
    return table


def columns_text(columns: Mapping[str, ColumnReport], *, width: int = 80) -> str:
    """Write the same table as text, at most this many characters wide."""
    from rich.console import Console  # takes longer to load than all of rich that reports need

    text = StringIO()
    Console(file=text, width=width, color_system=None).print(columns_table(columns))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _caption(others: list[ColumnReport]) -> str:
    words = "D: KL(reference ‖ clients) ± s.d., of the population where that is known"
    if others:
        ends = Counter(str(column.outcome or "not decided") for column in others)
        told = ", ".join(f"{number} {outcome}" for outcome, number in ends.items())
        words += f"; {len(others)} more columns: {told}"
    return words
