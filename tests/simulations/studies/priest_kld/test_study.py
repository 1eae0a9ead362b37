"""The whole study in small: its tables, its figures, and that nothing but its data decides them."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from forks import forked, joined

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.simulations.studies.priest_kld import study
from flwr_kld.simulations.studies.priest_kld.measure import measure
from flwr_kld.simulations.studies.priest_kld.settings import (
    CLIENTS,
    FROM_COUNTS,
    ONE_NUMBER,
    OURS,
    TAUS,
    THETA,
    Setting,
    Study,
)
from flwr_kld.simulations.studies.priest_kld.written import Written
from flwr_kld.simulations.studies.resumable import Kept, key_of

QUICK = ["--quick", "--workers", "0"]
TABLES = ("priest_kld.csv",)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    study.main([*QUICK, "--out", str(out)])
    return out


@pytest.fixture(scope="module")
def written():
    return Written.load("digits", 40)


def tables(out):
    return {name: (out / name).read_bytes() for name in TABLES}


def test_it_draws_every_figure_and_says_that_nobody_is_protected(quick):
    assert sorted(path.name for path in quick.glob("*.png")) == [
        f"figure_{i}.png" for i in range(1, 6)
    ]
    found = json.loads((quick / "priest_kld.json").read_text())
    assert found["summary"]["private"] is False
    ratios = found["summary"]["mean square error of baselines over ours"]
    printed, dithered, best = (
        next(r for r in ratios if (r["rule"], r["trust"], r["epsilon"]) == (rule, who, 0.5))
        for rule, who in (("paper", "distributed"), ("dithered", "distributed"),
                          ("post-processed", "distributed"))
    )  # fmt: skip
    assert printed["mse"] > best["mse"]
    assert dithered["mse"] >= best["mse"]
    assert all(r["standard_error"] > 0 for r in ratios)


def test_every_series_has_a_band_around_its_mean(quick):
    with (quick / "priest_kld.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["rule"], row["trust"]) for row in rows} == {
        ("paper", "none"), ("paper", "trusted"), ("paper", "aggregator"), ("paper", "distributed"),
        ("dithered", "distributed"), ("post-processed", "none"), ("post-processed", "trusted"),
        ("post-processed", "aggregator"), ("post-processed", "distributed"),
        ("scalar", "none"), ("scalar", "central"),
        ("default", "none"), ("default", "central"), ("default", "distributed"),
    }  # fmt: skip
    for row in rows:
        assert float(row["low"]) <= float(row["mse"]) <= float(row["high"])
        assert float(row["noise"]) == 0 or row["trust"] != "none"
        assert float(row["noise"]) > 0 or row["trust"] == "none" or row["rule"] == "post-processed"


def test_it_reads_what_is_kept_and_says_the_same(quick, monkeypatch):
    monkeypatch.setattr(study, "draw", lambda *_: None)

    def kept():
        return {file: file.stat().st_mtime_ns for file in (quick / "results").glob("*.npz")}

    before, results = tables(quick), kept()
    study.main([*QUICK, "--out", str(quick)])
    assert tables(quick) == before
    assert kept() == results


def test_what_is_half_measured_is_compared_in_whole_repeats_and_figures_are_named(
    quick, tmp_path, capsys
):
    shutil.copytree(quick / "results", tmp_path / "results")
    written = Written.load("digits", CLIENTS)
    small = Study.quick(written)
    asked, fewer, *_ = small.settings
    missing = [small.task(asked, OURS, 1)]
    missing += [small.task(fewer, part, k) for part in small.parts(fewer) for k in (0, 1)]
    for task in missing:
        (tmp_path / "results" / f"{key_of(task)}.npz").unlink()
    study.report(small, written, Kept(tmp_path / "results"), tmp_path)
    with (tmp_path / "priest_kld.csv").open() as file:
        rows = list(csv.DictReader(file))
    first = [row for row in rows if row["delta"] == "0.0" and row["anew"] == "False"]
    assert {row["repeats"] for row in first} == {"1"}
    assert {path.stem for path in tmp_path.glob("*.png")} == {"figure_1", "figure_3", "figure_4"}
    said = capsys.readouterr().out
    assert "figure_2 is not drawn" in said
    assert "figure_5 is not drawn" in said


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stop(written, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "measure", stop)
    with pytest.raises(SystemExit) as stopped:
        study.main([*QUICK, "--out", str(tmp_path)])
    assert stopped.value.code == 130
    assert "goes on from here" in capsys.readouterr().out


@pytest.mark.parametrize("part", [ONE_NUMBER, FROM_COUNTS, OURS])
def test_a_task_depends_on_its_configuration_alone(written, part):
    small = Study(written.digest, (3, 8), 2, lambdas=(0.0, 0.5))
    first_task, other = (small.task(Setting(20, 50, (1.0,)), part, k) for k in (0, 1))
    np.random.seed(0)
    first = measure(written, first_task)
    np.random.seed(1)
    moved = measure(written, other)
    again = measure(Written.load("digits", 40), first_task)
    assert all((first[name] == again[name]).all() for name in first)
    assert any((first[name] != moved[name]).any() for name in first)


def test_truth_is_of_all_clients_and_a_whole_cohort_reads_it(written):
    """Without noise, all writers asked: our defaults' baseline is the truth itself."""
    small = Study(written.digest, (3, 8), 1, lambdas=(0.0,))
    found = measure(written, small.task(Setting(written.writers, 400, (6.0,)), OURS, 0))
    truth = [skewed_divergence(written.laws[i], written.counts[j], THETA) for i, j in small.pairs]
    assert found["default/none"] == pytest.approx(truth, rel=1e-6)
    assert found["default/central"] == pytest.approx(np.array([truth]), rel=0.1)


def test_a_cohort_of_everybody_is_the_same_for_each_draw(written):
    """Asked for each draw anew, all writers answer as they do once, but for the noise."""
    everybody = Setting(written.writers, 4000, (6.0,), anew=True)
    small = Study(written.digest, (3, 8), 1, lambdas=(0.0,))
    anew = measure(written, small.task(everybody, FROM_COUNTS, 0))
    laws = written.laws
    for p, (i, j) in enumerate(small.pairs):
        scores = -np.log(np.maximum(laws[j], TAUS[0]) / np.where(laws[i] > 0, laws[i], 1))
        deviation = np.sqrt(laws[i] @ scores**2 - (laws[i] @ scores) ** 2) / 4000**0.5
        assert abs(anew["taus/none"][0, p] - laws[i] @ scores) < 6 * deviation


def test_few_writers_are_asked_in_the_papers_fractions_and_what_is_missing_is_named():
    few = Written.load("digits", 358)
    planned = Study.of(few, 1)
    assert (planned.fraction, planned.of_paper(200), planned.of_paper(660)) == (0.1, 20, 66)
    assert {s.clients for s in planned.settings} == {20, 4, 9, 18, 27, 36, 54, 66}
    assert not planned.left_out
    fewer = Study.of(Written.load("digits", 40), 1)
    assert [reason.split(" is left out: ")[0] for reason in fewer.left_out] == [
        "|C| = 200", "|C| = 36", "|C| = 90", "|C| = 180",
    ]  # fmt: skip
    assert "0 of 40 writers, with 0.0 records" in fewer.left_out[1]
    assert not Study.of(Written.load("digits", 700), 1).left_out


def test_other_records_are_other_results(written):
    assert Written.load("digits", 41).digest != written.digest


COMMAND = [sys.executable, study.__file__, "--quick"]


@pytest.mark.slow
def test_a_study_that_is_killed_ten_times_ends_with_the_same_tables(tmp_path, quick):
    """By SIGKILL, while it loads, computes, writes or summarises."""
    rng = np.random.default_rng(0)
    arguments = [*QUICK, "--out", str(tmp_path)]
    for _ in range(10):
        process = forked(lambda: study.main(arguments))
        time.sleep(float(rng.uniform(0.2, 8)))
        os.kill(process, signal.SIGKILL)
        joined(process)
    study.main(arguments)
    assert tables(tmp_path) == tables(quick)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(tmp_path, quick, workers):
    subprocess.run([*COMMAND, "--workers", str(workers), "--out", str(tmp_path)], check=True)
    assert tables(tmp_path) == tables(quick)
