"""JSON that is written is JSON: no NaN and no infinities, wherever they stand."""

from __future__ import annotations

import json

import pytest
from report.samples import REPORT, altered, checksummed

from flwr_kld.cli.common import print_json
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries

NAN, ENDLESS = float("nan"), float("inf")


def read(text: str):
    return json.loads(text, parse_constant=pytest.fail)


def test_a_report_and_its_file_have_null_instead(tmp_path):
    report = altered(REPORT, seconds=NAN, records=ENDLESS)
    shown = read(report.to_json())
    reading = shown["columns"]["labels"]["reading"]
    assert (shown["cost"]["seconds"], reading["records"]) == (None, None)
    usual = json.loads(REPORT.to_json())
    usual["cost"]["seconds"] = None
    usual["columns"]["labels"]["reading"]["records"] = None
    assert shown == checksummed(usual)
    CheckSeries([Point(1, report, cohort_truth=NAN)]).save(tmp_path / "checks.json")
    (check,) = read((tmp_path / "checks.json").read_text())
    assert (check["cohort_truth"], check["report"]["cost"]["seconds"]) == (None, None)


def test_commands_print_null_however_deep_it_is(capsys):
    print_json({"a": [1.5, (NAN, "NaN")], "b": {"c": -ENDLESS, "d": None, "e": 7}})
    assert read(capsys.readouterr().out) == {
        "a": [1.5, [None, "NaN"]], "b": {"c": None, "d": None, "e": 7},
    }  # fmt: skip
