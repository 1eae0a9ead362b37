"""A predictor's rounds beside drift checks: 300 writers on 20 nodes, three of which lie."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from ray_run import run_on_ray

from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.simulations import APP
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.simulated_monitor import CHECKS_FILE, run_monitor
from flwr_kld.views import CheckSeries
from simulations.lying_clients import app as lying_clients

WRITERS, NODES, ROUNDS, DRIFT_FROM = 300, 20, 4, 3
ON_A_NODE = WRITERS // NODES
LIARS = Path(__file__).with_name("lying_clients.py")
REPLAYED = "invalid reply: the reply belongs to another check"


@pytest.fixture(scope="module", params=["in process", pytest.param("ray", marks=pytest.mark.slow)])
def lines(request, drawn_once, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What one run of the simulation wrote down, a line a round."""
    home = tmp_path_factory.mktemp("run")
    config = {"writers": WRITERS, "cohort": WRITERS, "nodes": NODES, "checks": ROUNDS}
    config |= {"drift-from": DRIFT_FROM, "epsilon": 4.0, "predictor": True}
    config |= {"reference-writers": 300}  # candidates lie 50 nats apart, as with 1,000
    if request.param == "in process":
        return run_in_process({**config, "out": str(home)})
    app = shutil.copytree(APP, home / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(LIARS, app / "drift_app" / "client_app.py")
    return run_on_ray(app, home, nodes=NODES, config=config)


def run_in_process(config: dict) -> list[dict]:
    defaults = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config = {**defaults, **config}
    grid = InProcessGrid(lying_clients, NODES)
    grid.set_run_config(config)
    run_monitor(grid, config)
    return [json.loads(line) for line in (Path(config["out"]) / CHECKS_FILE).open()]


@pytest.fixture(scope="module")
def learnt(lines: list[dict]) -> list[PredictorReport]:
    return [PredictorReport.from_dict(line["predictor"]) for line in lines]


def test_checks_and_rounds_take_turns(lines: list[dict], learnt: list[PredictorReport]):
    checks = [CheckSeries.point_from(line) for line in lines]
    assert [check.number for check in checks] == [report.round for report in learnt] == [1, 2, 3, 4]
    for check in checks:
        assert check.report.cohort.survivors == WRITERS  # who lies to the predictor answers checks
        assert abs(check.report.reading.estimate - check.cohort_truth) < 0.15


def test_the_leader_is_right_before_and_after_the_drift(learnt: list[PredictorReport]):
    """With 255 honest reports at ε = 4 it is wrong in one run of a million at most."""
    assert [learnt[1].reading.leader, learnt[3].reading.leader] == ["none", "digits"]
    assert learnt[3].reading.mixture.keys() == {"none", "digits", "writers"}


def test_liars_are_rejected_and_counted(learnt: list[PredictorReport]):
    for report in learnt:
        lies = {"impossible report": ON_A_NODE, "wrong query": ON_A_NODE}
        if report.round > 1:  # nothing was there to be repeated
            lies[REPLAYED] = ON_A_NODE
        assert report.cohort.dropouts == lies
        assert report.cohort.survivors == WRITERS - sum(lies.values())
