"""Flower apps of the forms of Flower's own examples, rebuilt: small, and with dyadic numbers.

Sums of dyadic numbers are exact in whatever order replies arrive, so that results can be compared
bit by bit.
"""

from __future__ import annotations

from pathlib import Path

_PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = [
    "flwr[simulation]>=1.41",
]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "flwrlabs"

[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 2
"""

TRAINING = {
    "task": '''"""What server and clients share."""

import numpy as np


def load_data(partition_id: int, num_partitions: int) -> np.ndarray:
    return np.arange(8.0) + partition_id


def start() -> np.ndarray:
    return np.zeros(8)
''',
    "client_app": '''"""sklearnexample: A Flower / scikit-learn app."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sklearnexample.task import load_data

# Flower ClientApp
app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on local data."""
    node = int(context.node_config["partition-id"])
    data = load_data(node, int(context.node_config["num-partitions"]))
    weights = msg.content["arrays"]["w"].numpy()
    arrays = ArrayRecord({"w": Array(weights + (data - weights) / 2)})
    metrics = MetricRecord({"num-examples": 1, "loss": float(abs(data - weights).sum())})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    norm = float(msg.content["arrays"]["w"].numpy().sum())
    metrics = MetricRecord({"num-examples": 1, "norm": norm})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
''',
    "server_app": '''"""sklearnexample: A Flower / scikit-learn app."""

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from sklearnexample.task import start

# Create ServerApp
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Main entry point for the ServerApp."""

    # Read run config
    num_rounds: int = context.run_config["num-server-rounds"]
    arrays = ArrayRecord({"w": Array(start())})

    # Initialize FedAvg strategy
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=1.0)

    # Start strategy, run FedAvg for `num_rounds`
    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        num_rounds=num_rounds,
    )

    print("RESULT", result.arrays["w"].numpy().tobytes().hex())
    print("LOSSES", {r: dict(m) for r, m in result.train_metrics_clientapp.items()})
    print("NORMS", {r: dict(m) for r, m in result.evaluate_metrics_clientapp.items()})
''',
}
"""The structure of Flower's scikit-learn quickstart: Message API, FedAvg, train and evaluate."""

ANALYTICS = {
    "task": '''"""What is asked."""

COLUMNS = ["age", "job"]
''',
    "client_app": '''"""federatedanalytics: A Flower app that asks for histograms."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from federatedanalytics.task import COLUMNS

app = ClientApp()


@app.query()
def query(msg: Message, context: Context) -> Message:
    metrics = MetricRecord({name: int(context.node_config["partition-id"]) for name in COLUMNS})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
''',
    "server_app": '''"""federatedanalytics: A Flower app that asks for histograms."""

import time

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    nodes: list[int] = []
    while len(nodes) < 2:
        nodes = list(grid.get_node_ids())
        time.sleep(1)
    replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
    total = sum(int(reply.content["metrics"]["age"]) for reply in replies)
    print("RESULT", total)
''',
}
"""The structure of Flower's federated-analytics example: queries, no strategy."""


def write_app(folder: Path, name: str, files: dict[str, str]) -> Path:
    """Write an app of the structure of one of Flower's."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for module, text in files.items():
        (package / f"{module}.py").write_text(text)
    (folder / "pyproject.toml").write_text(_PROJECT.format(name=name, package=name))
    return folder
