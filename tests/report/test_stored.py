"""Reports that earlier versions stored are read as what they were, and kept in one present form."""

import json
from pathlib import Path

import pytest
from report.samples import REPORT, learnt

from flwr_kld.cli.show import report_lines
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.report import CheckSeries, Outcome
from flwr_kld.report.envelope import Outlay
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.reference_report import ReferenceReport
from flwr_kld.report.report import Report

STORED = Path(__file__).parent / "stored"
CHECKS = sorted(path.stem for path in STORED.glob("check-*.json"))


def stored(name: str) -> dict[str, object]:
    return json.loads((STORED / f"{name}.json").read_text())


def flat(values: dict[str, object]) -> dict[str, object]:
    """All that the parts of a report hold, side by side; a cost under its earlier names."""
    cost = values.pop("cost")
    names = {"epsilon": "delivered", "left": "epsilon_left", "budget": "epsilon_budget"}
    beside = {names.get(name, name): value for name, value in cost.items()}
    for part in ("reading", "guarantee", "protection", "cohort", "compared"):
        beside |= values.pop(part, {})
    return values | beside


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_keeps_every_value(name):
    values = stored(name)
    report = Report.from_dict(values)
    found = flat(json.loads(report.to_json()))
    assert found.pop("kind") == "check"
    assert (found.pop("schema"), values.pop("schema")) == (4, int(name.split("-")[1]))
    if before := values.get("verdict"):  # later fields of it say nothing
        unsaid = {k: v for k, v in found["verdict"].items() if k not in before}
        assert not any(unsaid.values())
        values["verdict"] = {**before, **unsaid}
    assert found.items() >= values.items()
    unsaid = {name: value for name, value in found.items() if name not in values}
    later = {"target": "cohort", "aggregation": "plain-sum", "delivered": 1.0}
    assert all(value in (None, [], {}, later.get(name)) for name, value in unsaid.items())
    assert Report.from_json(report.to_json()) == report
    assert str(report)
    assert list(report_lines(report))


def test_a_decision_is_read_with_its_types():
    report = Report.from_dict(stored("check-2-drift"))
    assert report.outcome is Outcome.DRIFT
    assert isinstance(report.verdict.interval, tuple | None)
    assert report.guarantee == Guarantee(1.0)
    assert {kind.name for kind in report.reading.outside.kinds} == {"missing", "other"}
    assert "The server saw each client's exact counts" in "\n".join(report_lines(report))


@pytest.mark.usefixtures("no_plots")
def test_checks_of_all_versions_are_shown_together():
    series = CheckSeries(Report.from_dict(stored(name)) for name in CHECKS)
    assert series.to_html().count("<tr><th scope") > len(CHECKS)
    assert len(series.to_csv().splitlines()) == len(CHECKS) + 1


def test_a_predictors_rounds():
    report = PredictorReport.from_dict(stored("round-2"))
    assert report.guarantee == Guarantee(2.0, unit=Unit.CLIENT)
    assert report.cost.left == pytest.approx(26.15, abs=0.01)
    assert (report.cohort.asked, report.cohort.survivors) == (60, 60)
    assert report.reading.weights.keys() == report.reading.mixture.keys()
    assert PredictorReport.from_json(report.to_json()) == report
    first = PredictorReport.from_dict(stored("round-1"))
    assert (first.reading.swing, first.guarantee.delta) == (1.0, 0.0)  # 2 ε, as was said then
    assert first.cost == Outlay(0.5, seconds=0.25)
    assert first.cohort.dropouts == {"no reply": 3}


def test_a_reference():
    values = stored("reference-1")
    report = ReferenceReport.from_dict(values)
    found = flat(json.loads(report.to_json()))
    assert (found.pop("kind"), found.pop("schema")) == ("reference", 4)
    del values["schema"]
    assert found.items() >= values.items()
    assert str(report).startswith(f"reference {values['reference'][:12]} from 2000 records of 20")


def test_one_kind_is_not_taken_for_another():
    for reader, report in (
        (PredictorReport, REPORT),
        (Report, learnt(1)),
        (ReferenceReport, REPORT),
    ):
        with pytest.raises(ValueError, match="not the report of a"):
            reader.from_dict(report.to_dict())
    with pytest.raises(ValueError, match="not the report of a check"):
        Report.from_dict(stored("round-2"))


def wrong(part: str, name: str, value: object) -> dict[str, object]:
    values = REPORT.to_dict()
    return values | {part: values[part] | {name: value}}


@pytest.mark.parametrize(
    "values",
    [
        {**REPORT.to_dict(), "schema": 5},
        {**REPORT.to_dict(), "schema": [4]},
        {**REPORT.to_dict(), "later": 1},
        {name: value for name, value in REPORT.to_dict().items() if name != "cohort"},
        {name: value for name, value in stored("check-2-drift").items() if name != "epsilon"},
        {**stored("check-2-drift"), "later": 1},
        {**stored("check-2-drift"), "survivors": "many"},
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
        {"schema": 2},
    ],
)
def test_what_no_version_wrote_is_refused(values):
    with pytest.raises(ValueError, match="report"):
        Report.from_dict(values)
