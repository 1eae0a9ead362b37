"""One check at the ε that the run config sets."""

import time

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from commuters.task import REFERENCE
from flwr_kld.strategies import KLDrift, Trusted

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(0.2)
    trust = Trusted(epsilon=float(context.run_config["epsilon"]))
    print(KLDrift(REFERENCE, trust, threshold=0.05).check(grid))
