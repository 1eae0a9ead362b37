"""The share of records outside the reference, as each kind of report says it."""

import csv
import json
from dataclasses import replace

import pytest
from report.samples import REPORT, altered, decided
from report.tables import drifted
from report.test_prometheus import saved

from flwr_kld.infer.outside import OutsideCell, OutsideFraction, OutsideLimits
from flwr_kld.report import Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.views import CheckSeries
from flwr_kld.views.prometheus import MonitorState

JOB = OutsideCell("'other' in <job>", 0.2694, 0.0113)
SHARE = OutsideFraction(0.2721, 0.0114, (JOB, OutsideCell("'missing' in age", 0.0027, 0.0021)))


def bounded(outside: OutsideFraction | None = SHARE) -> Report:
    report = decided(Outcome.DRIFT, 0.2, outside=outside)
    limits = OutsideLimits(0.2514, 0.2987, 0.0952)
    verdict = replace(report.verdict, outside=limits)
    return replace(report, columns={"labels": replace(report.columns["labels"], verdict=verdict)})


UNDECIDED = altered(REPORT, outside=SHARE)
FULL = decided(Outcome.DRIFT, 0.2)
"""Of a reference with mass everywhere."""


@pytest.mark.parametrize(("share", "next_step"), [(0.27, True), (0.001, False)])
def test_what_a_column_calls_other_is_asked_for_next(share, next_step):
    report = drifted()
    outside = OutsideFraction(share, 0.01, (OutsideCell("other", share, 0.01),))
    moved = report.columns[report.column]
    moved = replace(moved, reading=replace(moved.reading, outside=outside))
    report = replace(report, columns={**report.columns, report.column: moved})
    said = f"flwr-kld describe --discover {report.column!r}"
    assert (said in str(report)) is next_step


def test_files_have_its_numbers(tmp_path):
    checks = [Point(n, report) for n, report in enumerate((bounded(), UNDECIDED, FULL), 1)]
    CheckSeries(checks).save(tmp_path / "c.csv")
    rows = csv.DictReader((tmp_path / "c.csv").open())
    assert [(row["reading.outside.share"], row["verdict.outside.lower"]) for row in rows] == [
        ("0.2721", "0.2514"), ("0.2721", ""), ("", ""),
    ]  # fmt: skip
    CheckSeries(checks).save(tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text()
    content = json.loads(text)
    outside = content[0]["report"]["columns"]["labels"]["reading"]["outside"]
    assert outside["kinds"][0]["name"] == "'other' in <job>"
    assert content[0]["report"]["verdict"]["outside"]["upper"] == 0.2987
    assert list(CheckSeries.from_json(text)) == checks


def test_metrics_have_its_numbers(tmp_path):
    got = saved(tmp_path, MonitorState("fleet", bounded()))
    assert (got["kld_outside_share", "fleet"], got["kld_outside_lower_bound", "fleet"]) == (
        0.2721, 0.2514,
    )  # fmt: skip
    names = {key[0] for key in saved(tmp_path, MonitorState("fleet", UNDECIDED))}
    assert "kld_outside_share" in names
    assert "kld_outside_lower_bound" not in names
    names = {key[0] for key in saved(tmp_path, MonitorState("fleet", FULL))}
    assert not any("outside" in name for name in names)


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ((), "27 % ± 1 %"),
        ((OutsideCell("other", 0.02, 0.02), OutsideCell("missing", 0.01, 0.02)), "27 % ± 1 %"),
        (
            (OutsideCell("other", 0.2, 0.02), OutsideCell("missing", 0.1, 0.02)),
            "27 % ± 1 %, other, missing",
        ),
        (tuple(OutsideCell(x, 0.06, 0.01) for x in "abcd"), "27 % ± 1 %, a, b, c"),
    ],
)
def test_kinds_that_are_clear_are_named(kinds, text):
    assert str(replace(SHARE, kinds=kinds)) == text
