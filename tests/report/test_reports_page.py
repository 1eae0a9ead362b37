"""The page about reports shows code that runs, and names parts that there are."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from report.samples import nights

from flwr_kld.report import CheckSeries
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.reference_report import ReferenceReport
from flwr_kld.report.report import Report

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()


@pytest.mark.usefixtures("no_plots")
def test_the_example_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"<!-- example: series.py -->\n```python\n(.*?)```", PAGE, re.S)
    monkeypatch.chdir(tmp_path)
    CheckSeries(nights(3, drift_from=2)).save(Path("checks.json"))
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == [
        "1 no drift", "2 drift", "3 refused: the budget is spent until <i>Sunday</i>",
    ]  # fmt: skip
    assert "<title>Our fleet</title>" in Path("checks.html").read_text()


def test_the_table_names_every_part():
    of = {"checks": Report, "rounds": PredictorReport, "references": ReferenceReport}
    named = dict(re.findall(r"^\| `(\w+)` \| .* \| ([\w, ]+) \|$", PAGE, re.MULTILINE))
    for plural, kind in of.items():
        parts = {name for name, kinds in named.items() if kinds == "all" or plural in kinds}
        own = {"check", "key", "name", "round", "started"}
        assert parts == {field.name for field in fields(kind)} - own
