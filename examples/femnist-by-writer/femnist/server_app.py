"""One check of the nodes' writers against others, whose handwriting is public."""

import time

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from femnist.client_app import PATTERNS
from flwr_kld import Reference
from flwr_kld.clients.handwriting import load_femnist
from flwr_kld.strategies import KLDrift, Trusted

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    writers, public = int(context.run_config["writers"]), int(context.run_config["public"])
    while len(list(grid.get_node_ids())) < writers:
        time.sleep(0.2)
    others = load_femnist(range(writers, writers + public), dataset=context.run_config["dataset"])
    reference = Reference.from_samples(PATTERNS, others.images)
    print(KLDrift(reference, Trusted(epsilon=1.0), threshold=0.2).check(grid))
