"""Virtual clients on a Ray cluster of two raylets that runs already: Flower joins it by address."""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest
from flower_project import pyproject
from patience import HANGS

from flwr_kld.simulations.local_superlink import local_superlink, stop_family

pytestmark = pytest.mark.slow
RAY = Path(sys.executable).with_name("ray")
CLIENTS = 12

PROJECT = pyproject("cluster", "cluster_app:server", "cluster_app:client", out="")

APP = """
import time
from pathlib import Path

import ray
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.strategies import KLDrift, Trusted

domain = Labels(["bus", "car"])
client = ClientApp()
server = ServerApp()


def trips(context):
    raylet, me = ray.get_runtime_context().get_node_id(), context.node_config["partition-id"]
    (Path(context.run_config["out"]) / f"{me}.client").write_text(raylet)
    time.sleep(0.5)  # so that no raylet is through with all before the other has begun
    return ["bus"] * 10


answer_drift_queries(client, trips, domain)


@server.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < 12:
        time.sleep(0.2)
    reference = Reference.from_counts(domain, [300, 300, 1, 1])
    report = KLDrift(reference, Trusted(3.0)).check(grid)
    (Path(context.run_config["out"]) / "survivors").write_text(str(report.cohort.survivors))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a head and a second raylet, of one CPU each."""
    started = []
    usual = ["--num-cpus=1", "--block", "--disable-usage-stats"]

    def start(*how: str) -> Path:
        log = tmp_path / f"ray{len(started)}.log"
        with log.open("wb") as output:
            command = [RAY, "start", *how, *usual]
            started.append(subprocess.Popen(command, stdout=output, stderr=output))
        return log

    def said(log: Path, pattern: str) -> str:
        give_up = time.monotonic() + HANGS
        while not (found := re.search(pattern, log.read_text())):
            assert started[-1].poll() is None, log.read_text()
            assert time.monotonic() < give_up, log.read_text()
            time.sleep(0.2)
        return found.group(1)

    # Ray's sockets allow a path of about 100 characters.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        try:
            head = start("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={folder}")
            address = said(head, r"--address='([^']+)'")
            said(start(f"--address={address}"), "(Ray runtime started)")
            yield address
        finally:
            for process in started[::-1]:
                stop_family(process)


def test_clients_of_one_check_are_counted_on_both_raylets(
    cluster: str, tmp_path: Path, environment
):
    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "cluster_app.py").write_text(APP)
    environment["RAY_ADDRESS"] = cluster
    with local_superlink(tmp_path / "flower.log") as superlink:
        run = superlink.run(app, nodes=CLIENTS, config={"out": tmp_path})
        assert run.wait(timeout=HANGS) == 0, superlink.log.read_text()[-5000:]
        log = superlink.log.read_text()[-5000:]
    assert (tmp_path / "survivors").read_text() == str(CLIENTS), log
    on = Counter(file.read_text() for file in tmp_path.glob("*.client"))
    assert sum(on.values()) == CLIENTS
    assert len(on) == 2, on


@pytest.mark.parametrize("named", [None, "10.0.0.1:6379"])
def test_a_ray_of_its_own_unless_the_user_names_one(
    named: str | None, tmp_path: Path, environment: MutableMapping[str, str]
):
    environment.pop("RAY_ADDRESS", None)
    if named is not None:
        environment["RAY_ADDRESS"] = named
    with local_superlink(tmp_path / "flower.log") as superlink:
        assert superlink.environment["RAY_ADDRESS"] == (named or "local")
