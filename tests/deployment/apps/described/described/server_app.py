"""Describe, watch by night, or name what nobody listed; a JSON line of what came of it."""

import json
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
    folder = Path(str(context.run_config["folder"]))
    while len(list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(0.2)
    ledger, step = f"sqlite:///{folder / 'drift.db'}", context.run_config["step"]
    trust = Trusted(1.0, 1e-6)
    if step == "describe":
        report = Statistics(TABLE, trust, ledger=ledger).ask(grid)
        report.as_reference(TABLE).save(folder / "reference.npz")
    elif step == "night":
        session = Standing(trust, nights=30, book=folder / "standing.db")
        reference = Reference.load(folder / "reference.npz")
        report = KLDrift(reference, session, threshold=0.05, ledger=ledger).check(grid)
    else:
        report = LabelDiscovery(TABLE, "job", trust, ledger=ledger).ask(grid)
    print("TOLD", json.dumps(report.to_dict()))
