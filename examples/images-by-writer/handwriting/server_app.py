"""One check of half of the writers against others who lent their handwriting."""

import time

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.strategies import HostedClients, KLDrift, RotatingCohort, Trusted
from handwriting.task import DOMAIN, images

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(0.2)
    public = np.concatenate([images(writer) for writer in range(10_000, 10_500)])
    monitor = KLDrift(
        Reference.from_samples(DOMAIN, public),
        Trusted(epsilon=1.0),
        population=HostedClients(),
        cohort=RotatingCohort(400),
        threshold=0.2,
    )
    print(monitor.check(grid))
