"""One night of a standing session; a JSON line of what came of it."""

import json
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies import KLDrift, Standing, TrustedAggregator
from standing.client_app import USUAL, labels
from standing.pinned import AGGREGATOR
from standing.trap import die_after

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    folder = Path(str(config["folder"]))
    while len(list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.2)
    trust = Standing(
        TrustedAggregator(8.0, 1e-6, aggregator=AGGREGATOR), nights=int(config["nights"])
    )
    monitor = KLDrift(
        Reference.from_counts(labels, list(USUAL.values())),
        trust,
        ledger=f"sqlite:///{folder / 'drift.db'}",
        timeout=float(config["timeout"]),
    )
    trap = folder / "server.trap"
    if trap.exists():
        die_after(float(trap.read_text()), trap)
    try:
        print("NIGHT", json.dumps(monitor.check(grid).to_dict()))
    except CheckFailed as error:
        print("NIGHT", json.dumps({"failed": str(error)}))
