"""Ask once, print what the tables look like, and keep it."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from analytics.task import TABLE
from flwr_kld.strategies import Statistics, Trusted

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    trust = Trusted(epsilon=float(context.run_config["epsilon"]), delta=1e-6)
    report = Statistics(TABLE, trust).ask(grid)
    print(report)
    Path("statistics.json").write_text(json.dumps(report.to_dict(), indent=2))
    report.as_reference(TABLE).save("reference.json")  # for drift checks: it costs nothing more
