"""Reports that earlier versions stored are read as what they were."""

import json
from pathlib import Path

import pytest

from flwr_kld.report import PredictorReport, ReferenceReport, Report

STORED = Path(__file__).parent / "stored"


def stored(name: str) -> dict[str, object]:
    return json.loads((STORED / f"{name}.json").read_text())


@pytest.mark.parametrize("name", [p.stem for p in STORED.glob("check-2-*.json")])
def test_checks_of_schema_2(name):
    values = stored(name)
    report = Report.from_dict(values)
    assert json.loads(report.to_json()) == values | {"sight": None}


def test_rounds_of_schema_2():
    values = stored("round-2")
    assert json.loads(PredictorReport.from_dict(values).to_json()) == values


def test_references_of_schema_1():
    values = stored("reference-1")
    assert ReferenceReport.from_dict(values).to_dict() == values
