"""The server: it sees the sum over all hospitals, with their noise in it, and nothing else."""

import time
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.secure_sums import Roster
from flwr_kld.strategies import Distributed, KLDrift, SecureSum
from hospitals.client_app import STAYS

app = ServerApp()
reference = Reference.from_samples(STAYS, np.random.default_rng(0).gamma(2, 3, size=50_000))


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < int(context.run_config["hospitals"]):
        time.sleep(1)
    roster = Path(str(context.run_config["roster"])).read_text()
    monitor = KLDrift(
        reference,
        Distributed(epsilon=1.0, min_clients=3),
        aggregation=SecureSum(roster=Roster.from_json(roster)),
    )
    report = monitor.check(grid)
    print(report)
    print(report.protection.visibility.exact)
