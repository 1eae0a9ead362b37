"""One night of a standing session; a JSON line of what came of it.

The aggregator adds up, if clients seal their counts to its key; else the server does.
"""

import json
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.common.errors import CheckFailed
from flwr_kld.ledger import Ledger
from flwr_kld.strategies import KLDrift, Standing, Trusted, TrustedAggregator
from flwr_kld.trust.session_book import SessionBook
from standing.client_app import USUAL, labels
from standing.pinned import AGGREGATOR
from standing.trap import Steps, die_after

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    folder = Path(str(config["folder"]))
    while len(list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.2)
    who = (
        Trusted(8.0, 1e-6)
        if AGGREGATOR is None
        else TrustedAggregator(8.0, 1e-6, aggregator=AGGREGATOR)
    )
    trust = Standing(who, nights=int(config["nights"]), book=folder / "standing.db")
    monitor = KLDrift(
        Reference.from_counts(labels, list(USUAL.values())),
        trust,
        ledger=f"sqlite:///{folder / 'drift.db'}",
        timeout=float(config["timeout"]),
    )
    trap = folder / "server.trap"
    if trap.exists() and "step" in (when := trap.read_text()):
        steps = Steps(int(when.removeprefix("step ")), trap)
        steps.watch(grid, "push_messages")
        steps.watch(grid, "pull_messages")
        steps.watch(Ledger, "reserve")
        steps.watch(Ledger, "settle")
        steps.watch(SessionBook, "claim")
    elif trap.exists():
        die_after(float(trap.read_text()), trap)
    try:
        print("NIGHT", json.dumps(monitor.check(grid).to_dict()))
    except CheckFailed as error:
        print("NIGHT", json.dumps({"failed": str(error)}))
