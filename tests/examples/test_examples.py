"""The examples in this process; `test_readme_commands.py` runs them as their READMEs say.

Their data are the same in each run. The noise is not, and none of the outcomes is near its reach.
"""

import importlib
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from example_trips import write_trips
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from flwr_kld import Reference
from flwr_kld.cli.app import app
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.ledger.entry import AlreadyChecked
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.in_process_grid import InProcessGrid

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example as ``flwr run`` does, on so many nodes, and return what it prints."""

    def to_its_end(
        name: str, nodes: int, records: Callable[[int], Path] | None = None, **overrides: object
    ) -> str:
        project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())
        app = project["tool"]["flwr"]["app"]
        changed = {key.replace("_", "-"): value for key, value in overrides.items()}
        assert changed.keys() <= app["config"].keys()
        monkeypatch.syspath_prepend(EXAMPLES / name)
        server, client = (
            importlib.import_module(app["components"][side].partition(":")[0]).app
            for side in ("serverapp", "clientapp")
        )
        config = app["config"] | changed
        grid = InProcessGrid(client, nodes)
        grid.set_run_config(config)
        if records is not None:
            for node in grid.contexts.values():
                path = records(int(node.node_config["partition-id"]))
                node.node_config["drift-records"] = str(path)
        server(grid, Context(1, 1, {}, RecordDict(), config))
        return capsys.readouterr().out

    return to_its_end


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_is_an_app_whose_readme_is_short(folder: Path):
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    assert re.search(rf"^[a-z-]+ .*\bexamples/{folder.name}\b", text, re.MULTILINE)  # a command
    app = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["components"].keys() == {"serverapp", "clientapp"}


def test_a_table_beside_training(run: Run):
    usual = run("table-beside-training", nodes=5)
    assert usual.count("after round") == 2
    assert "drift," not in usual.replace("no drift,", "")
    assert float(usual.splitlines()[-1].removeprefix("accuracy ")) > 0.7
    moved = run("table-beside-training", nodes=5, weight_gain=3.0, rounds=5)
    assert "after round 5: drift" in moved
    assert "after round 10: drift" in moved  # of the rounds that followed
    assert "bmi: drift" in moved
    assert "age: drift" not in moved


def test_federated_analytics(run: Run, tmp_path: Path, here):
    text = run("federated-analytics", nodes=5)
    task = importlib.import_module("analytics.task")
    report = StatisticsReport.from_dict(json.loads(Path("statistics.json").read_text()))
    assert str(report) == text.strip()
    rows = [task.query_database(node) for node in range(5)]
    people = {name: np.concatenate([table[name] for table in rows]) for name in rows[0]}
    ill_told = 0
    for name in ("age", "height_cm", "weight_kg"):
        told, values = report.columns[name].statistics, people[name][~np.isnan(people[name])]
        assert abs(told.numbers.mean.value - values.mean()) < 0.05 * values.std()
        for one in told.numbers.quantiles:
            ill_told += not one.low <= np.quantile(values, one.level) <= one.high
    assert ill_told <= 3  # of 27, each with 5 %
    watched = Reference.load("reference.json")
    assert watched.fingerprint == report.reference


def test_model_monitoring(run: Run):
    usual = run("model-monitoring", nodes=5, rounds=5)
    assert "drift," not in usual.replace("no drift,", "")
    moved = run("model-monitoring", nodes=5, crisis=2.0, rounds=5)
    assert "label: drift" in moved
    assert "income: drift" not in moved
    usual_fit, moved_fit = (
        float(text.partition("accuracy ")[2].partition("%")[0]) for text in (usual, moved)
    )
    assert moved_fit < usual_fit - 5


def test_images_by_writer(run: Run):
    assert not run("images-by-writer", nodes=4).startswith("ALARM")
    assert run("images-by-writer", nodes=4, slant=0.5).startswith("ALARM: ")


def test_femnist_by_writer(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A data set of FEMNIST's form in a folder, which Flower's partitioner cuts by writer."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    digits = load_digits(30)
    ink = np.pad(np.kron(digits.images, np.ones((1, 3, 3))) * (255 / 16), ((0, 0), (2, 2), (2, 2)))
    columns = {
        "image": list(255 - ink.astype(np.uint8)),
        "writer_id": [f"f{writer:04}" for writer in digits.writer],
        "character": digits.labels,
    }
    features = datasets.Features(
        image=datasets.Image(),
        writer_id=datasets.Value("string"),
        character=datasets.ClassLabel(num_classes=62),
    )
    (tmp_path / "femnist").mkdir()
    table = datasets.Dataset.from_dict(columns, features=features)
    table.to_parquet(tmp_path / "femnist" / "train.parquet")
    text = run(
        "femnist-by-writer", nodes=12, writers=12, public=18, dataset=str(tmp_path / "femnist")
    )
    assert f"{(digits.writer < 12).sum()} records of 12 of 12 clients" in " ".join(text.split())


def test_a_nightly_check_reads_each_nodes_file_and_runs_once(
    run: Run, ledger_at: Callable[[Path], str], here: Path, environment
):
    url = ledger_at(here / "drift.db")
    environment["FLWR_KLD_LEDGER"] = url
    Ledger(url).set_budget(Budget(8.0, 1e-5, window_days=30))
    night = {"nodes": 4, "records": lambda node: write_trips(here, node)}
    run("nightly-postgresql", **night, drift_check="2026-11-23")
    kept = Ledger(url).check("2026-11-23")
    assert kept.state == "settled"
    assert kept.report["cohort"]["survivors"] == 4
    assert kept.report["verdict"]["outcome"] == "no drift"
    server = importlib.import_module("nightly.server_app")
    Reference.from_counts(server.TRIPS, server.survey).save("reference.json")
    CliRunner().invoke(app, ["report", "checks.json", "--ledger", url])
    options = ["--data", here / "trips-0.csv", "--reference", "reference.json"]
    mine = CliRunner().invoke(app, ["report", "--mine", "checks.json", *map(str, options)])
    assert (mine.exit_code, mine.stdout[:4]) == (0, "No: "), mine.output
    with pytest.raises(AlreadyChecked):
        run("nightly-postgresql", **night, drift_check="2026-11-23")
    assert 0.2 < Ledger(url).spent().epsilon <= 0.25


def test_the_notebooks_app(run: Run):
    assert not run("simulation-notebook", nodes=10).startswith("ALARM")
    assert run("simulation-notebook", nodes=10, less_cycling=0.8).startswith("ALARM: ")
