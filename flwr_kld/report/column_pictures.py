"""A table's columns as small pictures: clients' fractions, with errors, over the reference's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.column_report import ColumnReport
from flwr_kld.report.columns_table import MARKS
from flwr_kld.report.explanation.histogram import Histogram
from flwr_kld.report.report import Report

_WIDE, _HIGH = 100.0, 36.0
_GAP = 0.12
"""Part of a bar's width that is left free on either side."""
_SIDES = 2.0
"""Standard deviations either way of a fraction."""
_ROOM = 1.05
_ERRORS = 4.0
"""An error bar may make the picture this much higher than the largest fraction."""


@dataclass(frozen=True)
class Bar:
    """One cell, in units of the picture, y from its head."""

    x: float  # Of the reference's bar
    width: float
    reference: float  # Height of the reference's bar
    at: float  # Place of the clients' mark, and the ends of its error
    clients: float
    low: float
    high: float


@dataclass(frozen=True)
class CellRow:
    """One cell in words, for those who open a column."""

    name: str  # The cell in the domain's words
    reference: float  # Fractions of the records, in [0, 1]
    clients: float
    deviation: float
    # Lengths of the reference's and the clients' bars, in per cent of the longest
    bars: tuple[float, float]
    beyond: bool  # Whether the two lie more than two standard deviations apart


@dataclass(frozen=True)
class ColumnPicture:
    """One column as a page shows it."""

    name: str  # Name of the column
    report: ColumnReport  # What is known of it
    alone: Report  # The check's report as if the column had been checked alone
    mark: str  # Shape and colour of its verdict
    tone: str
    bars: tuple[Bar, ...]  # Of the small picture
    rows: tuple[CellRow, ...]  # Its cells in words
    wide: float = _WIDE
    high: float = _HIGH


def column_pictures(report: Report) -> Iterator[ColumnPicture]:
    """Yield the columns of a table's report, in rank."""
    for alone in report.by_column if report.columns else ():
        name = alone.column or ""
        column = report.columns[name]
        shown = column.histogram
        yield ColumnPicture(
            name=name,
            report=column,
            alone=alone,
            mark=MARKS[column.outcome],
            tone=_TONES[column.outcome],
            bars=tuple(_bars(shown)) if shown else (),
            rows=tuple(_rows(shown)) if shown else (),
        )


_TONES = {
    Outcome.DRIFT: "drift",
    Outcome.NO_DRIFT: "no-drift",
    Outcome.INCONCLUSIVE: "inconclusive",
    None: "undecided",
}


def _bars(shown: Histogram) -> Iterator[Bar]:
    highest = max(*shown.reference, *shown.clients, 1e-9)
    ends = max(c + _SIDES * s for c, s in zip(shown.clients, shown.deviation, strict=True))
    scale = _HIGH / (_ROOM * min(max(highest, ends), _ERRORS * highest))
    each = _WIDE / len(shown.names)

    def y(share: float) -> float:
        return round(min(max(_HIGH - scale * share, 0.0), _HIGH), 2)

    for place, (_, reference, clients, deviation) in enumerate(shown.bars):
        yield Bar(
            x=round((place + _GAP) * each, 2),
            width=round((1 - 2 * _GAP) * each, 2),
            reference=y(reference),
            at=round((place + 0.5) * each, 2),
            clients=y(clients),
            low=y(clients - _SIDES * deviation),
            high=y(clients + _SIDES * deviation),
        )


def _rows(shown: Histogram) -> Iterator[CellRow]:
    longest = max(*shown.reference, *shown.clients, 1e-9)
    for name, reference, clients, deviation in shown.bars:
        bars = (round(100 * reference / longest, 1), round(100 * clients / longest, 1))
        beyond = abs(clients - reference) > _SIDES * deviation
        yield CellRow(name, reference, clients, deviation, bars, beyond)
