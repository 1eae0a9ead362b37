"""A real SuperLink with SuperNodes over loopback: the docs' recipe, FedAvg with checks."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_deployment import Deployment, deployed
from flower_project import pyproject
from recipes import recipe_text

NODES = 2
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
