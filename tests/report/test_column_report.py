"""What a report of a table says of each column, and that it survives a file."""

from dataclasses import replace

import pytest
from report.tables import NAMES, drifted

from flwr_kld.infer.outside import OutsideFraction, OutsideLimits
from flwr_kld.infer.verdict import Outcome


def test_the_column_that_moved_comes_first_and_is_described():
    report = drifted()
    assert report.column == next(iter(report.columns)) == NAMES[1]
    moved, still = report.columns[NAMES[1]], report.columns["wage"]
    assert (moved.outcome, still.outcome) == (Outcome.DRIFT, Outcome.NO_DRIFT)
    assert moved.sentence.startswith("below 20: 10 % → 3")
    assert still.sentence is None
    assert moved.histogram.names == ("< 20", "[20, 40)", "[40, 60)", ">= 60", "missing")
    assert moved.histogram.clients[0] > 0.3 > moved.histogram.reference[0]
    assert moved.figures.psi.value > 0.3 > 0.02 > still.figures.psi.value
    assert moved.figures.ordered is not None
    assert report.columns["job"].figures.ordered is None


def test_what_changed_is_at_least_what_moved_and_what_is_outside():
    """So that one claim has one number: not 23 % changed beside a quarter that is unknown."""
    column = drifted().columns[NAMES[1]]
    low = replace(column.figures.total_variation, value=0.1, low=0.05, high=0.12)
    column = replace(column, figures=replace(column.figures, total_variation=low))
    (move, *_) = column.moved
    assert column.changed.low == pytest.approx(max(move.least, 0.05))
    assert column.changed.value == pytest.approx(abs(move.clients - move.reference))
    assert column.changed.low <= column.changed.value <= column.changed.high
    limits = OutsideLimits(0.24, 0.26, 0.0)
    outside = OutsideFraction(0.25, 0.005, ())
    asked = replace(column.reading, drawn_from=column.reading.counted, outside=outside)
    verdict = replace(column.verdict, outside=limits)
    column = replace(column, moved=(), verdict=verdict, reading=asked)
    changed = column.changed
    assert (changed.low, changed.value, changed.high) == (0.24, 0.25, 0.26)
    few = replace(limits, tolerated=0.3)  # as a reference of few rows may not have seen as much
    assert replace(column, verdict=replace(verdict, outside=few)).changed == low
