"""The simulation's own ServerApp and ClientApp code, in process."""

import json
import tomllib
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.simulations import APP
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.simulated_monitor import CHECKS_FILE, run_monitor
from flwr_kld.simulations.virtual_clients import virtual_clients
from flwr_kld.views import CheckSeries


@pytest.fixture
def config(tmp_path: Path):
    """The thin app's own run config, made small."""
    app = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    small = {"writers": 43, "cohort": 20, "reference-writers": 100, "nodes": 6, "checks": 4}
    return {**app["config"], **small, "drift-from": 3, "epsilon": 3.0, "out": str(tmp_path)}


def checks_of(config) -> list[Point[Report]]:
    grid = InProcessGrid(virtual_clients(), config["nodes"])
    grid.set_run_config(config)
    run_monitor(grid, config)
    lines = (Path(config["out"]) / CHECKS_FILE).read_text().splitlines()
    return [CheckSeries.point_from(json.loads(line)) for line in lines]


def test_estimates_follow_the_truth_through_the_drift(config):
    """Everybody is asked, so the truth is the seed's; estimates vary by 0.013 around it."""
    checks = checks_of({**config, "cohort": 43})
    assert [c.number for c in checks] == [1, 2, 3, 4]
    for check in checks:
        assert check.report.cohort.survivors == 43
        assert check.report.reading.records == 4300
        assert abs(check.report.reading.estimate - check.cohort_truth) < 0.15
    assert checks[2].cohort_truth > checks[1].cohort_truth + 0.1


@pytest.mark.parametrize("cohort", [20, 43])
def test_the_truth_is_of_the_records_that_the_estimate_is_about(config, cohort):
    """A check about these clients estimates from all their records.

    At this ε the noise moves nothing: the estimate is the truth.
    """
    asked = {"cohort": cohort, "checks": 2, "epsilon": 60.0, "threshold": 0.15}
    config |= {**asked, "drift-from": 2, "cells": 70_000}
    for check in checks_of(config):
        assert check.report.reading.records == 100 * cohort
        assert check.report.reading.estimate == pytest.approx(check.cohort_truth, abs=1e-4)


def test_real_writers(config, npz):
    checks = checks_of({**config, "source": str(npz), "writers": 0, "cohort": 20})
    assert {c.report.cohort.survivors for c in checks} == {20}
    assert checks[2].cohort_truth > checks[1].cohort_truth


def test_nodes_get_their_own_copy_of_a_message_and_keep_their_state():
    def vandal(message, context, call_next):
        message.content["question"]["n"] += 1
        seen = context.state.get("seen", ConfigRecord({"n": 0}))
        context.state["seen"] = ConfigRecord({"n": seen["n"] + 1})
        return call_next(message, context)

    app = ClientApp(mods=[vandal])

    @app.query()
    def query(message, context):
        own = {"n": message.content["question"]["n"], "seen": context.state["seen"]["n"]}
        return Message(RecordDict({"answer": ConfigRecord(own)}), reply_to=message)

    grid = InProcessGrid(app, 2)
    shared = RecordDict({"question": ConfigRecord({"n": 0})})
    for visit in (1, 2):
        messages = [Message(shared, node, "query") for node in grid.get_node_ids()]
        answers = [r.content["answer"] for r in grid.send_and_receive(messages)]
        assert [(a["n"], a["seen"]) for a in answers] == [(1, visit), (1, visit)]
    assert shared["question"]["n"] == 0


def test_a_crash_comes_back_as_flowers_error():
    app = ClientApp()
    grid = InProcessGrid(app, 1)  # no handler at all
    (reply,) = grid.send_and_receive([Message(RecordDict(), 1000, "query")])
    assert reply.has_error()
