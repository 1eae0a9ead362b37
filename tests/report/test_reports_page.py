"""The page about reports shows code that runs, and names parts that there are."""

import re
from pathlib import Path

import pytest
from report.samples import nights

from flwr_kld.views import CheckSeries

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()


@pytest.mark.usefixtures("no_plots")
def test_the_example_runs_as_it_stands(tmp_path, here, capsys):
    (code,) = re.findall(r"<!-- example: series.py -->\n```python\n(.*?)```", PAGE, re.S)
    CheckSeries(nights(3, drift_from=2)).save(Path("checks.json"))
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == [
        "1 no drift", "2 drift", "3 refused: the budget is spent until <i>Sunday</i>",
    ]  # fmt: skip
    assert "<title>Our fleet</title>" in Path("checks.html").read_text()
