"""The whole study in small: its tables, its figures, and that nothing but its data decides them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from forks import forked, joined

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.simulations.studies.priest_kld import study
from flwr_kld.simulations.studies.priest_kld.measure import measure
from flwr_kld.simulations.studies.priest_kld.settings import THETA, Study
from flwr_kld.simulations.studies.priest_kld.written import Written

SMOKE = ["--smoke", "--workers", "0"]
TABLES = ("priest_kld.csv",)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    study.main([*SMOKE, "--out", str(out)])
    return out


@pytest.fixture(scope="module")
def written():
    return Written.load("digits", 40)


def tables(out):
    return {name: (out / name).read_bytes() for name in TABLES}


def test_it_draws_every_figure_and_says_that_nobody_is_protected(smoke):
    assert sorted(path.name for path in smoke.glob("*.png")) == [
        f"figure_{i}.png" for i in range(1, 6)
    ]
    found = json.loads((smoke / "priest_kld.json").read_text())
    assert found["summary"]["private"] is False
    assert found["summary"]["distributed: paper's MSE over ours"]["best lam"] > 1


def test_every_series_has_a_band_around_its_mean(smoke):
    with (smoke / "priest_kld.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["rule"], row["trust"]) for row in rows} == {
        ("paper", "none"), ("paper", "trusted"), ("paper", "aggregator"), ("paper", "distributed"),
        ("scalar", "none"), ("scalar", "central"),
        ("default", "none"), ("default", "central"), ("default", "distributed"),
    }  # fmt: skip
    for row in rows:
        assert float(row["low"]) <= float(row["mse"]) <= float(row["high"])
        assert (float(row["noise"]) == 0) == (row["trust"] == "none")


def test_it_reads_what_is_kept_and_says_the_same(smoke, monkeypatch):
    monkeypatch.setattr(study, "measure", None)
    monkeypatch.setattr(study, "draw", lambda *_: None)
    before = tables(smoke)
    study.main([*SMOKE, "--out", str(smoke)])
    assert tables(smoke) == before


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stop(written, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "measure", stop)
    with pytest.raises(SystemExit) as stopped:
        study.main([*SMOKE, "--out", str(tmp_path)])
    assert stopped.value.code == 130
    assert "goes on from here" in capsys.readouterr().out


def test_a_task_depends_on_its_configuration_alone(written):
    small = Study(written.digest, (3, 8), 2, lambdas=(0.0, 0.5))
    task, other = (small.task(20, 50, (1.0,), repeat) for repeat in (0, 1))
    np.random.seed(0)
    first = measure(written, task)
    np.random.seed(1)
    moved = measure(written, other)
    again = measure(Written.load("digits", 40), task)
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["paper/none"] != moved["paper/none"]).any()


def test_truth_is_of_all_clients_and_a_whole_cohort_reads_it(written):
    """Without noise, all writers asked: our defaults' baseline is the truth itself."""
    small = Study(written.digest, (3, 8), 1, lambdas=(0.0,))
    found = measure(written, small.task(written.writers, 50, (6.0,), 0))
    truth = [skewed_divergence(written.laws[i], written.counts[j], THETA) for i, j in small.pairs]
    assert found["default/none"] == pytest.approx(truth, rel=1e-6)
    assert found["default/central"] == pytest.approx(np.array([truth]), rel=0.1)


def test_other_records_are_other_results(written):
    assert Written.load("digits", 41).digest != written.digest


COMMAND = [sys.executable, study.__file__, "--smoke"]


@pytest.mark.slow
def test_a_study_that_is_killed_ten_times_ends_with_the_same_tables(tmp_path, smoke):
    """By SIGKILL, while it loads, computes, writes or summarises."""
    rng = np.random.default_rng(0)
    arguments = [*SMOKE, "--out", str(tmp_path)]
    for _ in range(10):
        process = forked(lambda: study.main(arguments))
        time.sleep(float(rng.uniform(0.2, 8)))
        os.kill(process, signal.SIGKILL)
        joined(process)
    study.main(arguments)
    assert tables(tmp_path) == tables(smoke)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(tmp_path, smoke, workers):
    subprocess.run([*COMMAND, "--workers", str(workers), "--out", str(tmp_path)], check=True)
    assert tables(tmp_path) == tables(smoke)
