"""What a report of a table says of each column, and that it survives a file."""

from report.tables import NAMES, drifted

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
