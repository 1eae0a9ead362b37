"""The predictors' studies go on where they were stopped, and write the same tables again."""

import importlib

import pytest

from flwr_kld.simulations.studies import predictor_risk
from flwr_kld.simulations.studies.resumable import Kept, complete

STUDIES = {
    "risk": (
        {"HYPOTHESES": (2,), "HORIZONS": (50,), "EPSILONS": (1.0,), "BAYES": ("design",)},
        ["--labels", "5", "--repeats", "1"],
        "predictor_risk.csv",
    ),
    "select": (
        {"SETTINGS": ((2.0, 0.4),), "BLOCK": 2},
        ["--runs", "2", "--most", "4"],
        "predictor_select.csv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_a_small_study_goes_on_and_writes_the_same_tables(name, tmp_path, monkeypatch):
    study = importlib.import_module(f"flwr_kld.simulations.studies.predictor_{name}")
    values, options, table = STUDIES[name]
    for value in values.items():
        monkeypatch.setattr(study, *value)
    arguments = [*options, "--workers", "0", "--out", str(tmp_path)]
    study.main(arguments)
    first = (tmp_path / table).read_bytes()
    assert len(first.splitlines()) > 1
    monkeypatch.setattr(study, "measure", None)  # all is kept
    study.main(arguments)
    assert (tmp_path / table).read_bytes() == first


def test_what_processes_keep_of_risks_is_what_is_measured_here(tmp_path):
    task = {"family": "drift", "K": 2, "M": 5, "epsilon": 1.0, "horizons": [50], "repeat": 0}
    kept = Kept(tmp_path)
    complete(predictor_risk.measure, None, [task], kept, workers=1)
    read = predictor_risk.rows_of([(task, kept.load(task))])
    measured = dict(predictor_risk.risks(task))
    assert [f"50 {row['method']}" for row in read] == list(measured)
    for row, risk in zip(read, measured.values(), strict=True):
        assert row["risk"] == pytest.approx(risk)
        assert (row["family"], row["K"], row["M"], row["horizon"]) == ("drift", 2, 5, 50)
        assert row["uniform"] == read[0]["uniform"] > 0
