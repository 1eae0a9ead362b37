"""The check that `flwr-kld check` and `watch` start, on the ledger that the environment names."""

import os
import time

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.strategies import Alarm, KLDrift, TwoAggregators
from trips.client_app import TRIPS, aggregators

app = ServerApp()
survey = {"mode": [3100, 2500, 1200, 3200], "km": [3000, 2100, 2600, 1400, 700, 200]}  # public


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(1)
    monitor = KLDrift(
        Reference.from_counts(TRIPS, survey),
        TwoAggregators(epsilon=1.0, delta=1e-7, aggregators=aggregators()),
        threshold=0.1,
        alarm=Alarm(rate=0.05, horizon=365),  # any false alarm in a year of nights: 5 %
        ledger=os.environ["FLWR_KLD_LEDGER"],
    )
    monitor.check(grid, key=str(context.run_config["drift-check"]) or None)
