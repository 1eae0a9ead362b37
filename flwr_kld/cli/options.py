"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Ledger = Annotated[
    str,
    typer.Option(
        envvar="FLWR_KLD_LEDGER",
        help="Database of the ledger: sqlite:///file.db or postgresql://user@host/name.",
    ),
]
Population = Annotated[
    str,
    typer.Option(
        envvar="FLWR_KLD_POPULATION", help="Population whose budget and history are used."
    ),
]
Predictor = Annotated[
    str | None, typer.Option(help="Show the rounds of the predictor of this name, not checks.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
Last = Annotated[int, typer.Option("--last", min=1, help="Number of latest checks or rounds.")]

FlowerApp = Annotated[Path, typer.Argument(help="Folder of the Flower app that checks.")]
Connection = Annotated[
    str | None, typer.Argument(help="Name of the SuperLink connection; by default Flower's.")
]
RunConfig = Annotated[
    list[str] | None,
    typer.Option(help="Further overrides of the app's run config, as in flwr run: 'key=value'."),
]
Timeout = Annotated[
    float, typer.Option(min=1, help="Seconds until a check is given up and its run is stopped.")
]
Zone = Annotated[str, typer.Option(help="Time zone of the cron expression.")]
MetricsFile = Annotated[
    Path | None,
    typer.Option(help="Write Prometheus metrics to this .prom file after each check."),
]
AlertsFile = Annotated[
    Path | None,
    typer.Option(
        "--alerts", help="TOML file: whom to tell after each check, as flwr-kld alerts does."
    ),
]
