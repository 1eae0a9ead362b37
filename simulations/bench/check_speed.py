"""Speed and memory of a whole check over 3,500 writers with about 100 records and 1,000 cells.

    python simulations/bench/check_speed.py            # in-process, one Flower node a writer
    python simulations/bench/check_speed.py --ray      # the same on Ray, 50 nodes × 70 writers

In-process, the ClientApp and ServerApp code of a deployment runs over real Flower messages. The
writers' images are made before the clock starts; loading, encoding and counting are on it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from flwr_kld.clients import answer_drift_queries
from flwr_kld.query.partition import Partition
from flwr_kld.simulations import APP
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.local_superlink import local_superlink
from flwr_kld.simulations.scenario import Scenario
from flwr_kld.simulations.simulated_monitor import CHECKS_FILE
from flwr_kld.strategies import KLDrift, Trusted

WRITERS, RECORDS, CELLS = 3500, 100, 1000
_CHECKS = 12


def in_process(console: Console) -> None:
    """Time checks in this process."""
    scenario = Scenario(writers=WRITERS, records=RECORDS, drift="none", fresh=False)
    images: list[NDArray[np.uint8]] = [
        scenario.write(member, 1).images
        for member in track(scenario.members, description="writers", transient=True)
    ]
    app = ClientApp()

    def records(context: Context) -> NDArray[np.uint8]:
        return images[int(context.node_config["partition-id"])]

    answer_drift_queries(app, records, scenario.domain)
    grid = InProcessGrid(app, WRITERS)
    monitor = KLDrift(scenario.reference, Trusted(epsilon=1.0), plan=Partition(CELLS))
    seconds = [monitor.check(grid).cost.seconds for _ in range(_CHECKS)]
    console.print(
        f"in-process, {WRITERS:,} nodes: median {statistics.median(seconds):.2f} s a check "
        f"(min {min(seconds):.2f}, max {max(seconds):.2f}, first {seconds[0]:.2f}), "
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


def on_ray(console: Console) -> None:
    """Time checks on Ray; the first ones warm the workers' memory of their writers."""
    nodes = 50
    with TemporaryDirectory() as folder:
        config = {
            "writers": WRITERS, "records": RECORDS, "cohort": WRITERS, "cells": CELLS,
            "nodes": nodes, "checks": _CHECKS, "drift": "none", "fresh": False, "out": folder,
        }  # fmt: skip
        with (
            local_superlink(Path(folder) / "flower.log") as superlink,
            console.status("Ray is running"),
            superlink.run(APP, nodes=nodes, config=config) as run,
        ):
            run.wait()
        lines = (Path(folder) / CHECKS_FILE).read_text().splitlines()
    seconds = [json.loads(line)["report"]["cost"]["seconds"] for line in lines]
    steady = seconds[_CHECKS // 2 :]
    console.print(
        f"Ray, {nodes} nodes × {WRITERS // nodes} writers: median {statistics.median(steady):.2f} s"
        f" a check in the steady second half (first {seconds[0]:.1f})"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", action="store_true", help="on Ray instead of in-process")
    console = Console()
    (on_ray if parser.parse_args().ray else in_process)(console)


if __name__ == "__main__":
    main()
