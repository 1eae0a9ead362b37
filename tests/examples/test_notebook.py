"""The notebook's cells run one after the other, and show what its words say."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "simulation-notebook"


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.syspath_prepend(FOLDER)
    notebook = json.loads((FOLDER / "study.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert len(pyplot.gcf().axes) == len(names["EPSILONS"])
    pyplot.close("all")
    assert capsys.readouterr().out.count("ε = ") == len(names["EPSILONS"])
    for (epsilon, drift), report in names["found"].items():
        if epsilon >= 0.5 and drift != 0.3:
            assert (report.outcome == "drift") is (drift >= 0.6), (epsilon, drift)
