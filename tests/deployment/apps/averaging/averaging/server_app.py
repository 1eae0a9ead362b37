"""FedAvg, alone or with a drift check after each round; results as JSON.

With a ledger, training is private, and charged with the checks until the budget is spent.
"""

import json
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from flwr_kld import Labels, Reference
from flwr_kld.ledger import Ledger
from flwr_kld.strategies import KLDrift, LedgerAccountant, Trusted, WithDriftChecks

app = ServerApp()


def norm(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({"norm": float(np.square(arrays["weights"].numpy()).sum())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    nodes = int(context.run_config["nodes"])
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.2)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes)
    ledger = f"sqlite:///{file}" if (file := context.run_config["ledger"]) else None
    if ledger is not None:
        strategy = DifferentialPrivacyServerSideFixedClipping(
            strategy,
            noise_multiplier=3.0,
            clipping_norm=1.0,
            num_sampled_clients=nodes,
            accountant=LedgerAccountant(ledger, grid),
        )
    if context.run_config["checks"]:
        labels = Labels(["bus", "car", "train", "walk"])
        reference = Reference.from_counts(labels, [310, 250, 120, 320])
        checks = KLDrift(reference, Trusted(epsilon=1.0), ledger=ledger)
        strategy = WithDriftChecks(strategy, checks, every=1)
    start = ArrayRecord({"weights": Array(np.zeros(4))})
    rounds = int(context.run_config["rounds"])
    try:
        result = strategy.start(grid, start, num_rounds=rounds, timeout=900, evaluate_fn=norm)
    except PrivacyBudgetExhausted:
        print("RESULT", json.dumps({"spent": Ledger(ledger).spent().epsilon}))
        return
    kinds = ("train_metrics_clientapp", "evaluate_metrics_serverapp")
    found = {kind: {r: dict(m) for r, m in getattr(result, kind).items()} for kind in kinds}
    found["arrays"] = result.arrays["weights"].numpy().tobytes().hex()
    print("RESULT", json.dumps(found))
