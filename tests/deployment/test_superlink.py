"""The README's recipe on a real SuperLink with SuperNodes, over loopback."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from readme import recipe_text

from flwr_kld.simulations.processes import stop_family

NODES = 3
BIN = Path(sys.executable).parent

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "recipe"
version = "1.0.0"
description = "the README's recipe"
license = "Apache-2.0"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "test"

[tool.flwr.app.components]
serverapp = "recipe.server_app:app"
clientapp = "recipe.client_app:app"
"""


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Deployment:
    """A SuperLink and its SuperNodes, each a process of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, *self._ports = free_ports(1 + NODES)
        self._processes: list[subprocess.Popen[bytes]] = []
        quiet = ("TELEMETRY_ENABLED=0", "DISABLE_UPDATE_CHECK=1")
        self.environment = {
            **os.environ,
            **dict(f"FLWR_{q}".split("=") for q in quiet),
            "FLWR_HOME": str(home),
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "real"\n[superlink.real]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )

    def start(self) -> None:
        self._spawn("superlink", "flower-superlink", "--insecure", "--port", str(self.port))
        self._wait(f"http://127.0.0.1:{self.port}/health")
        for i, port in enumerate(self._ports):
            self._spawn(
                f"node{i}", "flower-supernode", "--insecure",
                "--superlink", f"127.0.0.1:{self.port}", "--port", str(port),
                "--node-config", f"partition-id={i} num-partitions={NODES}",
            )  # fmt: skip

    def run(self, app: Path) -> str:
        """``flwr run`` an app to its end and return what it printed."""
        done = subprocess.run(
            [BIN / "flwr", "run", str(app), "real", "--stream"],
            env=self.environment, capture_output=True, text=True, timeout=150,
        )  # fmt: skip
        return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)

    def stop(self) -> None:
        for process in reversed(self._processes):
            stop_family(process)

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [BIN / program, *arguments], env=self.environment, stdout=log, stderr=log
            )
        self._processes.append(process)

    def _wait(self, url: str) -> None:
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            try:
                with urllib.request.urlopen(url, timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError((self.home / "superlink.log").read_text())


@pytest.fixture
def deployment(tmp_path: Path):
    running = Deployment(tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The recipe as a Flower app; it waits for its three nodes and asks all of them."""
    package = tmp_path / "app" / "recipe"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(PYPROJECT)
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
    assert "KL(reference || clients) = " in printed, printed[-3000:]
    assert "3 of 3 clients, 300 records" in printed
    assert "'kld.failed'" not in printed
    assert "Traceback" not in printed
