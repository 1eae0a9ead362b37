"""A stored report is read as it was written, and nothing else is."""

import json
import random
from pathlib import Path

import pytest
from report.samples import REPORT, STATISTICS, checksummed, decided, learnt

from flwr_kld.infer.e_detector import EDetector
from flwr_kld.kernel import Guarantee
from flwr_kld.report import Outcome
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import StatisticsReport


@pytest.mark.parametrize("report", [REPORT, STATISTICS, decided(Outcome.DRIFT, 0.2), learnt(1)])
def test_a_report_keeps_every_value(report):
    values = json.loads(report.to_json())
    assert values["schema"] == 1
    assert type(report).from_dict(values) == report
    assert type(report).from_json(report.to_json()) == report


@pytest.mark.parametrize(
    ("file", "kind"), [("check_1.json", Report), ("statistics_1.json", StatisticsReport)]
)
def test_what_version_1_stored_is_read_and_written_as_it_was(file, kind):
    """A field that comes, goes or changes needs another `SCHEMA`: ledgers hold such reports."""
    text = (Path(__file__).with_name("stored") / file).read_text()
    assert kind.from_json(text).to_json() == text


def test_a_decision_is_read_with_its_types():
    report = Report.from_json(decided(Outcome.NO_DRIFT, 0.05).to_json())
    assert report.outcome is Outcome.NO_DRIFT
    assert isinstance(report.verdict.detector, EDetector)
    assert report.guarantee == Guarantee(1.0)
    assert PredictorReport.from_json(learnt(1).to_json()).guarantee.protected == "client"


def test_one_kind_is_not_taken_for_another():
    for reader, report in (
        (PredictorReport, REPORT),
        (Report, learnt(1)),
        (StatisticsReport, REPORT),
    ):
        with pytest.raises(ValueError, match="report"):
            reader.from_dict(report.to_dict())


def wrong(part: str, name: str, value: object) -> dict[str, object]:
    values = REPORT.to_dict()
    holder = values["columns"]["labels"] if part == "reading" else values
    holder[part][name] = value
    return checksummed(values)


def without(name: str) -> dict[str, object]:
    return checksummed({key: value for key, value in REPORT.to_dict().items() if key != name})


@pytest.mark.parametrize(
    "values",
    [
        {**REPORT.to_dict(), "schema": 2},
        {**REPORT.to_dict(), "schema": [1]},
        checksummed({**REPORT.to_dict(), "later": 1}),
        without("schema"),
        without("cohort"),
        without("one_client"),
        without("columns"),
        checksummed({**REPORT.to_dict(), "columns": {}}),
        wrong("reading", "estimate", "abc"),
        wrong("reading", "later", 1),
        wrong("cohort", "survivors", 18.5),
        wrong("guarantee", "epsilon", -1.0),
        wrong("guarantee", "epsilon", "1"),
        wrong("guarantee", "delta", False),
        wrong("guarantee", "unit", "planet"),
        wrong("protection", "private", 1),
        {},
        [],
        {"schema": 1},
    ],
)
def test_what_no_version_wrote_is_refused(values):
    with pytest.raises(ValueError, match="report"):
        Report.from_dict(values)


def test_a_side_that_is_none_is_refused():
    values = STATISTICS.to_dict()
    (numbers,) = [
        one["statistics"]["numbers"]
        for one in values["columns"].values()
        if one["statistics"]["numbers"]
    ]
    numbers["quantiles"][0]["beyond"] = "<b>"
    with pytest.raises(ValueError, match="beyond"):
        StatisticsReport.from_dict(checksummed(values))


def test_an_error_of_any_size_is_printed():
    assert "±" in str(
        Report.from_dict(
            wrong("reading", "error", {"sampling": 0.1, "monte_carlo": -1e308, "privacy": 0.1})
        )
    )


@pytest.mark.parametrize("report", [REPORT, STATISTICS, decided(Outcome.DRIFT, 0.2), learnt(1)])
def test_a_flipped_bit_is_refused_or_changes_nothing(report):
    """Most make another number, word or name, which no rule of a field could tell."""
    written = report.to_json().encode()
    flip, refused = random.Random(5), 0
    for _ in range(300):
        damaged = bytearray(written)
        damaged[flip.randrange(len(damaged))] ^= 1 << flip.randrange(8)
        try:
            assert type(report).from_json(damaged.decode(errors="replace")) == report
        except ValueError:
            refused += 1
    assert refused > 150  # elsewhere a space became another, or a digit past float64's


def test_a_report_without_its_checksum_is_refused():
    values = REPORT.to_dict()
    del values["sha256"]
    with pytest.raises(ValueError, match="checksum"):
        Report.from_dict(values)
