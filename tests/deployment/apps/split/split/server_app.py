"""Two deciding checks through two aggregators; a JSON line for each."""

import json
import time

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.strategies import KLDrift, TwoAggregators
from split.client_app import USUAL, labels
from split.pinned import AGGREGATORS

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(0.2)
    reference = Reference.from_counts(labels, list(USUAL.values()))
    trust = TwoAggregators(epsilon=1.0, aggregators=AGGREGATORS)
    monitor = KLDrift(reference, trust, threshold=0.1, timeout=90.0)
    for _ in range(2):
        print("CHECK", json.dumps(monitor.check(grid).to_dict()))
