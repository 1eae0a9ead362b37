"""What a report of a table says of each column, and that it survives a file."""

import json

import pytest
from report.samples import checksummed
from report.tables import NAMES, drifted, table_report

from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.report import Report


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


@pytest.mark.parametrize("threshold", [True, False])
def test_a_table_survives_a_file(threshold):
    report = table_report(dict.fromkeys(NAMES, 0.2), threshold=threshold)
    again = Report.from_json(report.to_json())
    assert again == report
    assert list(again.columns) == list(report.columns)  # ranked


@pytest.mark.parametrize("part", ["histogram", "figures", "reading", "verdict"])
def test_a_column_with_a_value_that_is_not_known_is_refused(part):
    values = json.loads(drifted().to_json())
    values["columns"]["wage"][part]["later"] = 1
    with pytest.raises(ValueError, match=f"columns.wage.{part}"):
        Report.from_dict(checksummed(values))
