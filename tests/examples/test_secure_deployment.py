"""What the README of the secure deployment says, in a copy of its folder."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from flower_deployment import BIN, wait_for
from patience import HANGS

from flwr_kld.simulations.local_superlink import reserved_port, stop_family

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "secure-deployment"
pytestmark = pytest.mark.slow


def with_keys(tmp_path: Path) -> Path:
    """A copy of the example, with the keys that its README makes."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "app", ignore=shutil.ignore_patterns("keys"))
    (command,) = re.findall(r"^CLIENTS=.*", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    path = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-c", command.replace("../..", str(ROOT))], cwd=folder, env=path, check=True
    )
    return folder


def test_four_hospitals_answer_a_server_that_they_need_not_trust(tmp_path: Path):
    folder = with_keys(tmp_path)
    with reserved_port() as port:
        environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder / "keys" / "flower"),
            "PORT": str(port),
        }
        log = tmp_path / "start.log"
        with log.open("wb") as output:
            started = subprocess.Popen(
                ["./start.sh"], cwd=folder, env=environment, stdout=output, stderr=output
            )
        try:
            wait_for(
                lambda: log.read_text().count("SuperNode ID") == 4 or started.poll() is not None,
                HANGS, "SuperNodes are connected",
            )  # fmt: skip
            roster = f'roster="{folder}/keys/public/roster.json"'
            done = subprocess.run(
                ["flwr", "run", ".", "hospitals", "--stream", "--run-config", roster],
                cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGS,
            )  # fmt: skip
        finally:
            stop_family(started)
    printed = " ".join(done.stdout.split())
    assert "8,000 records of 4 of 4 clients" in printed, done.stdout[-5000:] + log.read_text()
    assert "nobody saw a clean one" in done.stdout


def test_a_port_that_somebody_else_has_is_no_reason_to_wait_for_ever(tmp_path: Path):
    folder = with_keys(tmp_path)
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    with socket.create_server(("0.0.0.0", 0)) as silent:  # and says nothing
        environment["PORT"] = str(silent.getsockname()[1])
        done = subprocess.run(
            ["./start.sh"], cwd=folder, env=environment, capture_output=True, timeout=120
        )
    assert done.returncode == 1
