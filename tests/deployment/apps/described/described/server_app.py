"""Describe, watch by night, or name what nobody listed, as the command line asks."""

import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from described.client_app import TABLE
from flwr_kld import Reference
from flwr_kld.strategies import KLDrift, LabelDiscovery, Standing, Statistics, Trusted

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    folder = Path(str(config["folder"]))
    while len(list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.2)
    ledger, trust = f"sqlite:///{folder / 'drift.db'}", Trusted(1.0, 1e-6)
    if key := str(config["drift-statistics"]):
        Statistics(TABLE, trust, ledger=ledger).ask(grid, key)
    elif key := str(config["drift-discovery"]):
        LabelDiscovery(TABLE, str(config["drift-column"]), trust, ledger=ledger).ask(grid, key)
    else:
        session = Standing(trust, nights=30, book=folder / "standing.db")
        reference = Reference.load(folder / "reference.json")
        monitor = KLDrift(reference, session, threshold=0.05, ledger=ledger)
        monitor.check(grid, key=str(config["drift-check"]))
