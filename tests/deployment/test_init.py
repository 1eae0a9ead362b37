"""What ``flwr-kld init`` writes serves a deployment: its guard, rotation, budget and schedule."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_deployment import BIN, Deployment, deployed
from patience import HANGS

from flwr_kld.guard import verify
from flwr_kld.ledger import Ledger

NODES, ROWS = 2, 6000


def write(file: Path, rows: int, seed: int) -> Path:
    rng = random.Random(seed)
    lines = (f"{i},{rng.gauss(50, 12):.1f},{rng.choice(['nurse', 'clerk'])}" for i in range(rows))
    file.write_text("\n".join(["id,age,job", *lines]))
    return file


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with deployed(tmp_path) as running:
        yield running


@pytest.mark.slow
def test_the_schedules_command_checks_the_nodes_own_rows(deployment: Deployment, tmp_path: Path):
    def typed(*words: object) -> subprocess.CompletedProcess[str]:
        command = [BIN / "flwr-kld", *map(str, words)]
        return subprocess.run(
            command, env=deployment.environment, capture_output=True, text=True, timeout=HANGS
        )

    sample, app = write(tmp_path / "sample.csv", 3000, 0), tmp_path / "app"
    at = ["--clients", NODES, "--id", "id", "--connection", "real"]
    made = typed("init", sample, "--out", app, *at)
    assert made.returncode == 0, made.stderr
    guard = (app / "deploy" / "guard.toml").read_text()
    for i in range(NODES):
        own = tmp_path / f"node{i}"
        own.mkdir(mode=0o700)
        rows = write(own / "rows.csv", ROWS, i + 1)
        (own / "guard.toml").write_text(guard.replace("/var/lib/flwr-kld", str(own)))
        (own / "reports").mkdir()
        config = f'drift-records="{rows}" drift-guard="{own / "guard.toml"}"'
        config += f' drift-reports="{own / "reports"}"'
        deployment.add_node(f"node{i}", config)
    assert typed("doctor", app, "real", "--clients", NODES).returncode == 0
    cron = (app / "deploy" / "kld.cron").read_text()
    command = shlex.split(cron.partition("$(flwr-kld")[2].partition("2>&1")[0])
    done = typed(*command, "--ledger", f"sqlite:///{app / 'drift.db'}", "--json")
    assert done.returncode in (0, 2), done.stdout + done.stderr[-3000:]
    report = json.loads(done.stdout)["report"]
    assert report["cohort"]["survivors"] == NODES, report["cohort"]
    spent = Ledger(f"sqlite:///{app / 'drift.db'}").spent()
    assert spent.epsilon == pytest.approx(1, abs=1e-4)
    # The next night of the session costs nothing more, on the server and on each node.
    again = typed("check", app, "real", "--key", "next", "--ledger", f"sqlite:///{app}/drift.db",
                  "--run-config", 'drift-sample="" drift-nodes=2', "--json")  # fmt: skip
    assert again.returncode in (0, 2), again.stdout + again.stderr[-3000:]
    assert json.loads(again.stdout)["report"]["cohort"]["survivors"] == NODES
    # Nothing drifted, and no report was sent to the nodes that would store it.
    assert not [*tmp_path.glob("node*/reports/*")]
    # A run of the simulation is refused by nodes that have records of their own, and costs nothing.
    played = deployment.run(app)
    assert "this run simulates nodes on a public sample" in played, played[-3000:]
    receipts = [verify(tmp_path / f"node{i}" / "receipts.db").receipts for i in range(NODES)]
    assert [len(of_node) for of_node in receipts] == [2] * NODES  # two checks about these clients
