"""FedAvg over two rounds, alone or with a drift check after each; results as JSON."""

import json
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from flwr_kld import Labels, Reference
from flwr_kld.strategies import KLDrift, Trusted, WithDriftChecks

app = ServerApp()


def norm(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({"norm": float(np.square(arrays["weights"].numpy()).sum())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    nodes = int(context.run_config["nodes"])
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.2)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes)
    if context.run_config["checks"]:
        labels = Labels(["bus", "car", "train", "walk"])
        reference = Reference.from_counts(labels, [310, 250, 120, 320])
        strategy = WithDriftChecks(strategy, KLDrift(reference, Trusted(epsilon=1.0)), every=1)
    start = ArrayRecord({"weights": Array(np.zeros(4))})
    result = strategy.start(grid, start, num_rounds=2, timeout=900, evaluate_fn=norm)
    kinds = ("train_metrics_clientapp", "evaluate_metrics_serverapp")
    found = {kind: {r: dict(m) for r, m in getattr(result, kind).items()} for kind in kinds}
    found["arrays"] = result.arrays["weights"].numpy().tobytes().hex()
    print("RESULT", json.dumps(found))
