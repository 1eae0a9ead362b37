"""Flower's Result has the metrics that `docs/reports.md` lists, where it says."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted, WithDriftChecks

TABLE = Table({"age": Binned([20, 40]), "job": Labels(["nurse", "clerk"])})
PUBLIC = {"age": [10, 30, 50], "job": ["nurse", "clerk", "clerk"]}
WEIGHTS = ArrayRecord({"weights": Array(np.zeros(2))})
app = ClientApp()


@app.train()
def train(message, context):
    metrics = MetricRecord({"loss": 1.0, "num-examples": 1})
    return Message(RecordDict({"arrays": WEIGHTS, "metrics": metrics}), reply_to=message)


answer_drift_queries(app, lambda context: {k: v * 30 for k, v in PUBLIC.items()}, TABLE)


def documented() -> set[str]:
    """Names of the metrics in the page's table, for the columns of this table."""
    text = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")
    section = text.partition("## In Flower's Result")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `kld.")]
    names = {name for row in rows for name in re.findall(r"`(kld\.[\w.]+)`", row)}
    return names - {"kld.population.COLUMN"} | {f"kld.population.{name}" for name in TABLE.columns}


@pytest.fixture
def monitor(ledger_at: Callable[[Path], str], tmp_path: Path) -> KLDrift:
    ledger = Ledger(ledger_at(tmp_path / "drift.db"))
    ledger.set_budget(Budget(10.0, 1e-6, window_days=30))
    reference = Reference.from_frame(TABLE, PUBLIC)
    return KLDrift(reference, Trusted(epsilon=1.0, delta=1e-8), threshold=0.1, ledger=ledger)


def test_a_check_that_is_the_round(monitor: KLDrift):
    result = monitor.start(InProcessGrid(app, nodes=10), num_rounds=1)
    assert set(result.evaluate_metrics_clientapp[1]) == documented()
    assert result.evaluate_metrics_serverapp == {}


def test_a_check_beside_training(monitor: KLDrift):
    strategy = WithDriftChecks(FedAvg(fraction_evaluate=0.0), monitor, every=2)
    result = strategy.start(InProcessGrid(app, nodes=10), WEIGHTS, num_rounds=3)
    assert list(result.evaluate_metrics_serverapp) == list(strategy.reports) == [2]
    assert set(result.evaluate_metrics_serverapp[2]) == documented()
    assert result.evaluate_metrics_clientapp == {}
