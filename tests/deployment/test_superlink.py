"""A real SuperLink with SuperNodes over loopback: the docs' recipe, FedAvg with checks."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_deployment import Deployment, deployed
from flower_project import pyproject
from recipes import recipe_text
from renyi import order_of, renyi_of_gaussian, renyi_of_table

from flwr_kld import Labels, Reference
from flwr_kld.ledger import Budget, Kind, Ledger
from flwr_kld.strategies import KLDrift, Trusted

NODES = 2
TRIPS = Labels(["bus", "car", "train", "walk"])
AVERAGING = Path(__file__).parent / "apps" / "averaging"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("deployment")) as running:
        for i in range(NODES):
            running.add_node(f"node{i}", f"partition-id={i} num-partitions={NODES}")
        yield running


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The recipe as a Flower app; it waits for its nodes and asks all of them."""
    package = tmp_path / "app" / "recipe"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(
        pyproject("recipe", "recipe.server_app:app", "recipe.client_app:app")
    )
    (package / "__init__.py").touch()
    (package / "client_app.py").write_text(recipe_text("client_app.py"))
    server = recipe_text("server_app.py")
    begin = "def main(grid: Grid, context: Context) -> None:\n"
    wait = f"    while len(list(grid.get_node_ids())) < {NODES}:\n        time.sleep(1)\n"
    for old, new in (
        (begin, begin + wait),
        ("RotatingCohort(20)", f"RotatingCohort({NODES})"),
        ("num_rounds=3", "num_rounds=1"),
        ("clientapp[3]", "clientapp[1]"),
    ):
        assert old in server
        server = server.replace(old, new)
    (package / "server_app.py").write_text("import time\n" + server)
    return package.parent


def test_the_recipe_on_a_real_deployment(deployment: Deployment, app: Path):
    printed = deployment.run(app)
    assert "KL(reference ‖ clients) in nats" in printed, printed[-3000:]
    assert f"{100 * NODES} records of {NODES} of {NODES} clients" in " ".join(printed.split())
    assert "'kld.failed'" not in printed
    assert "Traceback" not in printed


@pytest.mark.slow  # in process: strategies/test_with_drift_checks.py
def test_drift_checks_leave_training_as_it_is(deployment: Deployment, tmp_path: Path):
    """The same FedAvg app twice: alone, and with the drift query beside it."""
    app = shutil.copytree(AVERAGING, tmp_path / "app")
    results = []
    for checks in ("false", "true"):
        printed = deployment.run(app, "--run-config", f"nodes={NODES} checks={checks}")
        assert "Traceback" not in printed
        found = re.findall(r"RESULT (\{.*\})", printed)
        assert found, printed[-3000:]
        results.append(json.loads(found[0]))
    alone, checked = results
    drift = [
        {name: metrics.pop(name) for name in list(metrics) if name.startswith("kld.")}
        for metrics in checked["evaluate_metrics_serverapp"].values()
    ]
    assert checked == alone  # arrays to the last bit
    assert list(alone["train_metrics_clientapp"]) == ["1", "2"]
    assert [bool(metrics) for metrics in drift] == [False, True, True]
    for metrics in drift[1:]:
        assert (metrics["kld.survivors"], metrics["kld.records"]) == (NODES, 100 * NODES)
        assert 0 < metrics["kld.estimate"] < 4.6


@pytest.mark.slow  # in process: strategies/test_ledger_accountant.py
def test_private_training_and_checks_stop_at_the_edge_of_one_budget(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Flower's own fixed clipping; the round that would pass the budget asks no node."""
    app = shutil.copytree(AVERAGING, tmp_path / "app")
    ledger, epsilon = Ledger(f"sqlite:///{tmp_path}/drift.db"), 9.0
    ledger.set_budget(Budget(epsilon, 1e-6, composition="renyi"))
    options = f"nodes={NODES} checks=true rounds=9 ledger='{tmp_path}/drift.db'"
    began = time.monotonic()
    printed = deployment.run(app, "--run-config", options)
    seconds = time.monotonic() - began
    found = re.findall(r"RESULT (\{.*\})", printed)
    assert found, printed[-3000:]
    *done, refused = ledger.history()
    rounds = len(done) // 2
    assert [entry.kind for entry in done] == [Kind.TRAINING, Kind.CHECK] * rounds
    assert {entry.state for entry in done} == {"settled"}
    assert (refused.kind, refused.failure.kind) == (Kind.TRAINING, "budget")
    order, taken = order_of(epsilon, 0.5e-6)
    each = renyi_of_gaussian(order, 3.0 / 2)
    reference = Reference.from_counts(TRIPS, [310, 250, 120, 320])
    check = renyi_of_table(order, KLDrift(reference, Trusted(epsilon=1.0)).trust.cost())
    spent = taken + rounds * (each + check)
    assert json.loads(found[0])["spent"] == pytest.approx(spent, rel=1e-9)
    assert ledger.spent().epsilon == pytest.approx(spent, rel=1e-9)
    assert 2 <= rounds < 8
    assert spent <= epsilon < spent + each
    trained = (tmp_path / "drift.trained").read_text().split()
    assert sorted(trained) == sorted(str(1 + i) for i in range(rounds) for _ in range(NODES))
    with capsys.disabled():
        print(f"\n{rounds} private rounds and checks on {NODES} nodes: {seconds:.0f} s")
