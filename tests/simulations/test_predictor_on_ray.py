"""A predictor's rounds beside drift checks on Ray: 300 writers on 20 nodes, three of which lie."""

import shutil
from pathlib import Path

import pytest
from ray_run import run_on_ray

from flwr_kld.report import Check
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.simulations.demo import APP

WRITERS, NODES, ROUNDS, DRIFT_FROM = 300, 20, 4, 3
ON_A_NODE = WRITERS // NODES
LIARS = Path(__file__).with_name("lying_clients.py")
REPLAYED = "invalid reply: the reply belongs to another round"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What one run of the simulation wrote down, a line a round."""
    home = tmp_path_factory.mktemp("ray")
    app = shutil.copytree(APP, home / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(LIARS, app / "drift_app" / "client_app.py")
    config = {"writers": WRITERS, "cohort": WRITERS, "nodes": NODES, "checks": ROUNDS}
    config |= {"drift-from": DRIFT_FROM, "epsilon": 4.0, "predictor": True}
    return run_on_ray(app, home, nodes=NODES, config=config)


@pytest.fixture(scope="module")
def learnt(lines: list[dict]) -> list[PredictorReport]:
    return [PredictorReport.from_dict(line["predictor"]) for line in lines]


def test_checks_and_rounds_take_turns(lines: list[dict], learnt: list[PredictorReport]):
    checks = [Check.from_dict(line) for line in lines]
    assert [check.number for check in checks] == [report.round for report in learnt] == [1, 2, 3, 4]
    for check in checks:
        assert check.report.survivors == WRITERS  # who lies to the predictor answers checks
        assert abs(check.report.estimate - check.truth) < 0.15


def test_the_leader_is_right_before_and_after_the_drift(learnt: list[PredictorReport]):
    """With 255 honest reports at ε = 4 it is wrong in one run of a million at most."""
    assert [learnt[1].leader, learnt[3].leader] == ["none", "digits"]
    assert learnt[3].mixture.keys() == {"none", "digits", "writers"}


def test_liars_are_rejected_and_counted(learnt: list[PredictorReport]):
    for report in learnt:
        lies = {"impossible report": ON_A_NODE, "wrong query": ON_A_NODE}
        if report.round > 1:  # nothing was there to be repeated
            lies[REPLAYED] = ON_A_NODE
        assert report.rejected == lies
        assert report.taken == WRITERS - sum(lies.values())
