"""DP training beside checks on Ray: one budget, and rounds that follow a drift."""

import json
from pathlib import Path

import pytest
from flower_project import pyproject
from patience import HANGS
from renyi import order_of, renyi_of_gaussian, renyi_of_table

from flwr_kld import Labels, Reference
from flwr_kld.ledger import Budget, Kind, Ledger
from flwr_kld.simulations.local_superlink import local_superlink
from flwr_kld.strategies import KLDrift, Trusted

NODES = 4

PROJECT = pyproject("training", "training_app:server", "training_app:client", out="", action="")

APP = """
import json
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries, loss_weights
from flwr_kld.strategies import (
    KLDrift, LedgerAccountant, Pause, Retrain, Reweight, Trusted, WithDriftChecks
)

domain = Labels(["bus", "car"])
client = ClientApp()
server = ServerApp()


@client.train()
def train(message, context):
    config = message.content["config"]
    out = Path(context.run_config["out"])
    with open(out / "trained", "a") as file:
        print(json.dumps(loss_weights(config, domain, ["bus", "car"]).tolist()), file=file)
    arrays = ArrayRecord({"w": Array(message.content["arrays"]["w"].numpy() + 0.1)})
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def trips(context):
    trained = (Path(context.run_config["out"]) / "trained").read_text().splitlines()
    drifted = len(trained) > 4  # from the second round on
    return ["bus"] * (800 if drifted else 500) + ["car"] * (200 if drifted else 500)


answer_drift_queries(client, trips, domain)


@server.main()
def main(grid, context):
    out = Path(context.run_config["out"])
    while len(list(grid.get_node_ids())) < 4:
        time.sleep(0.2)
    ledger = f"sqlite:///{out}/drift.db"
    training = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0, min_train_nodes=4),
        noise_multiplier=4.0,
        clipping_norm=1.0,
        num_sampled_clients=4,
        accountant=LedgerAccountant(ledger, grid),
    )
    reference = Reference.from_counts(domain, [500, 500])
    checks = KLDrift(reference, Trusted(epsilon=1.0), threshold=0.05, ledger=ledger)
    actions = {"retrain": Retrain(2), "pause": Pause(), "reweight": Reweight("labels")}
    strategy = WithDriftChecks(
        training, checks, every=1, on_drift=actions[context.run_config["action"]], suggest=False
    )
    with suppress(PrivacyBudgetExhausted):
        strategy.start(grid, ArrayRecord({"w": Array(np.zeros(3))}), num_rounds=3)
    said = {
        "rounds": sorted(strategy.reports),
        "acted": sorted(strategy.actions),
        "spent": training.privacy_spent().epsilon,
    }
    (out / "said.json").write_text(json.dumps(said))
"""


@pytest.mark.slow
@pytest.mark.rate(1e-6)
@pytest.mark.parametrize(
    ("action", "epsilon", "rounds"),
    [("retrain", 30.0, 4), ("pause", 30.0, 2), ("reweight", 30.0, 3), ("retrain", 7.0, 3)],
)
def test_a_drift_in_training_is_found_and_answered(
    tmp_path: Path, action: str, epsilon: float, rounds: int
):
    """With ε = 7, the fourth round would pass the budget: it never starts."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "training_app.py").write_text(APP)
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(epsilon, 1e-6, composition="renyi"))
    with local_superlink(tmp_path / "flower.log") as superlink:
        run = superlink.run(app, nodes=NODES, config={"out": tmp_path, "action": action})
        assert run.wait(timeout=HANGS) == 0
        log = superlink.log.read_text()[-5000:]
    assert (tmp_path / "said.json").exists(), log
    said = json.loads((tmp_path / "said.json").read_text())
    assert said["rounds"] == list(range(1, rounds + 1))
    assert said["acted"] == [2]
    entries = list(ledger.history())
    if epsilon < 30:
        refused = entries.pop()
        assert (refused.kind, refused.failure.kind) == (Kind.TRAINING, "budget")
    kinds = [entry.kind for entry in entries]
    assert kinds == [Kind.TRAINING, Kind.CHECK] * rounds
    assert {entry.state for entry in entries} == {"settled"}
    order, taken = order_of(epsilon, 0.5e-6)
    reference = Reference.from_counts(Labels(["bus", "car"]), [500, 500])
    checks = KLDrift(reference, Trusted(epsilon=1.0), threshold=0.05)
    each = renyi_of_gaussian(order, 4.0 / 2) + renyi_of_table(order, checks.trust.cost())
    assert said["spent"] == pytest.approx(taken + rounds * each, rel=1e-9)
    assert ledger.spent().epsilon == pytest.approx(taken + rounds * each, rel=1e-9)
    weights = [json.loads(line) for line in (tmp_path / "trained").read_text().splitlines()]
    assert len(weights) == NODES * rounds
    assert all(own == [1.0, 1.0] for own in weights[: 2 * NODES])
    if action == "reweight":
        assert weights[-1] == pytest.approx([0.5 / 0.8, 0.5 / 0.2], rel=0.1)
