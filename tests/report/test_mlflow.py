"""Checks in MLflow: what it is given, and once what it keeps."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from report.samples import REPORT
from report.tables import table_report

from flwr_kld.report.mlflow import log_to_mlflow
from flwr_kld.report.report import Report

# A real tracking store takes MLflow seconds to load: by itself, in `make test-slow`.
_LOGGED = """
import json, sys, mlflow
from flwr_kld.report.mlflow import log_to_mlflow
from flwr_kld.report.report import Report
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run() as run:
    log_to_mlflow(Report.from_json(sys.stdin.read()), step=5)
client = mlflow.tracking.MlflowClient()
kept = client.get_run(run.info.run_id).data
steps = [point.step for point in client.get_metric_history(run.info.run_id, "kld_epsilon")]
(file,) = client.list_artifacts(run.info.run_id, "checks")
print(json.dumps([kept.metrics, kept.tags, steps, file.path]))
"""


@pytest.fixture
def given(monkeypatch):
    """What MLflow is asked to log: metrics, tags, artifacts and the step."""
    seen = SimpleNamespace(metrics={}, tags={}, files={}, step=None)

    def log_metrics(metrics, step):
        seen.metrics, seen.step = metrics, step

    stub = SimpleNamespace(
        log_metrics=log_metrics,
        set_tags=lambda tags: seen.tags.update(tags),
        log_dict=lambda content, path: seen.files.update({path: content}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    return seen


def test_a_check_is_metrics_tags_and_the_whole_report(given):
    log_to_mlflow(REPORT, step=5)
    assert given.step == 5
    assert given.metrics["kld_estimate"] == 0.25
    assert given.metrics["kld_survivors"] == 18
    assert "kld_evidence" not in given.metrics  # nothing was decided
    assert given.tags["flwr_kld.outcome"] == "not decided"
    assert given.tags["flwr_kld.private"] == "true"
    (content,) = given.files.values()
    assert list(given.files) == ["checks/c0ffee.json"]
    assert Report.from_json(json.dumps(content)) == REPORT


def test_columns_keep_apart_whatever_their_names(given):
    drifts = {"a b": 0.0, "a&b": 0.2, "a<b": 0.0, "é" * 300: 0.0}
    log_to_mlflow(table_report(drifts))
    names = [n for n in given.metrics if n.startswith("kld_column_divergence/")]
    assert len(set(names)) == 4
    assert {"kld_column_divergence/" + n for n in ("a b", "a_b", "a_b_2")} < set(names)
    assert max(map(len, names)) <= 250
    assert given.metrics["kld_columns_drifted"] == 1
    assert given.metrics["kld_column_divergence/a_b"] > given.metrics["kld_column_divergence/a b"]


def test_a_step_is_a_whole_number(given):
    log_to_mlflow(REPORT, step=np.int64(3))
    assert (given.step, type(given.step)) == (3, int)
    for step in (1.5, math.nan, "3", True):
        with pytest.raises(ValueError, match="step"):
            log_to_mlflow(REPORT, step=step)


def test_without_mlflow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"flwr-kld\[mlflow\]"):
        log_to_mlflow(REPORT)


@pytest.mark.slow
def test_mlflow_keeps_what_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    report = table_report({"a b": 0.0, "a&b": 0.2})
    done = subprocess.run(
        [sys.executable, "-c", _LOGGED, f"file://{tmp_path}/runs"],
        input=report.to_json(), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    metrics, tags, steps, file = json.loads(done.stdout.splitlines()[-1])
    assert metrics["kld_columns_drifted"] == 1
    assert "kld_column_divergence/a_b" in metrics
    assert tags["flwr_kld.guarantee"] == str(report.guarantee)
    assert (steps, file) == ([5], f"checks/{report.check}.json")
