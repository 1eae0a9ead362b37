"""A check over a million virtual clients on Ray: 200 Flower nodes that host 5,000 each.

    python simulations/bench/crowd.py                             # five minutes on two idle cores
    python simulations/bench/crowd.py --clients 20000 --nodes 10

Each client has 50 records of its own, drawn when it is asked, and is counted, checked and summed as
a client of its own. Nothing but a node's reply, of 20 MB, is ever whole: the server takes each as
it comes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from flwr_kld import Binned, Reference
from flwr_kld.clients import host_drift_queries
from flwr_kld.simulations.local_superlink import local_superlink
from flwr_kld.strategies import HostedClients, KLDrift, Trusted

RECORDS, CELLS = 50, 1000
DOMAIN = Binned.uniform(0, 1, CELLS)
_PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "crowd"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr"]
[tool.flwr.app]
publisher = "flwr-kld"
[tool.flwr.app.components]
serverapp = "crowded.apps:server"
clientapp = "crowded.apps:client"
[tool.flwr.app.config]
clients = 0
nodes = 0
checks = 0
out = ""
"""
_APPS = """
import crowd
client = crowd.client
server = crowd.server
"""
client, server = ClientApp(), ServerApp()


def _records(_: Context, member: int) -> NDArray[np.float64]:
    return np.random.default_rng(member).random(RECORDS)


def _hosted(context: Context) -> range:
    first, nodes = (int(context.node_config[k]) for k in ("partition-id", "num-partitions"))
    return range(first, int(context.run_config["clients"]), nodes)


host_drift_queries(client, _records, _hosted, lambda _: DOMAIN)


@server.main()
def check(grid: Grid, context: Context) -> None:
    """Run deciding checks over everybody, and write down what they cost."""
    config = context.run_config
    while len(list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.1)
    reference = Reference.from_counts(DOMAIN, np.r_[np.ones(CELLS), np.zeros(DOMAIN.size - CELLS)])
    monitor = KLDrift(
        reference,
        Trusted(epsilon=1.0, delta=1e-6),
        population=HostedClients(),
        threshold=0.05,
        timeout=3600.0,
    )
    with Path(str(config["out"])).open("w", buffering=1) as out:
        for _ in range(int(config["checks"])):
            out.write(json.dumps(monitor.check(grid).to_dict()) + "\n")


def main() -> None:
    """Run it on a Ray of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--checks", type=int, default=1)
    arguments = parser.parse_args()
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        app, out = Path(folder) / "app", Path(folder) / "checks.jsonl"
        (app / "crowded").mkdir(parents=True)
        (app / "pyproject.toml").write_text(_PYPROJECT)
        (app / "crowded" / "__init__.py").touch()
        (app / "crowded" / "apps.py").write_text(_APPS)
        beside = {"PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{os.getenv('PYTHONPATH', '')}"}
        log = Path(folder) / "flower.log"
        with (
            local_superlink(log, beside) as superlink,
            superlink.run(
                app, nodes=arguments.nodes, config={**vars(arguments), "out": out}
            ) as run,
        ):
            run.wait()
        lines = out.read_text().splitlines() if out.is_file() else []
        if len(lines) < arguments.checks:
            raise RuntimeError(log.read_text()[-5000:])
        for line in lines:
            report = json.loads(line)
            cohort, cost = report["cohort"], report["cost"]
            print(
                f"{cohort['survivors']:,} of {cohort['asked']:,} clients, "
                f"{report['verdict']['outcome']}: {cost['seconds']:.1f} s, of which waiting "
                f"{cost['waiting']:.1f}"
            )
    print(f"{time.perf_counter() - began:.0f} s in all, with Ray's start")


if __name__ == "__main__":
    main()
