"""``flwr-kld check``: one idempotent check, for cron and its kin."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.check_keys import check_key, current_key
from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION
from flwr_kld.cli.one_check import Checker
from flwr_kld.cli.options import (
    AlertsFile,
    AsJson,
    Connection,
    FlowerApp,
    Ledger,
    MetricsFile,
    Population,
    RunConfig,
    Timeout,
)
from flwr_kld.cli.output import print_json, results
from flwr_kld.cli.show import answer_lines
from flwr_kld.cli.tell import Listeners, latest_state, state_after
from flwr_kld.operate.schedule import parse_schedule


def check(
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key. By default the latest slot of --schedule, else this UTC minute."
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Cron expression or 'every 6h': all starts in a slot are one check."),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of --schedule's cron expression. Default UTC.")
    ] = None,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    metrics_file: MetricsFile = None,
    alerts: AlertsFile = None,
    as_json: AsJson = False,
) -> None:
    """Run one check on a Flower connection, wait for its report and print it.

    A check that the ledger knows is not run again: its stored report is printed.

    Exit codes: 0 no drift, 1 drift, 2 inconclusive (or no threshold set), 3 refused (budget,
    cohort, guard), 4 error. SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the run; the exit code is
    128 plus the signal's number.
    """
    if key is not None and schedule is not None:
        raise ValueError("give --key or --schedule, not both")
    if zone is not None and schedule is None:
        raise ValueError("--zone has no meaning without --schedule: give both")
    slots = parse_schedule(schedule, zone=zone or "UTC") if schedule is not None else None
    name = check_key(key) if key is not None else current_key(datetime.now(UTC), slots)
    listeners = Listeners.of_options(metrics_file, alerts, ledger, population, slots)
    checker = Checker(ledger, population, app, connection, run_config or (), timeout)
    answer = checker.check(name)
    if as_json:
        print_json(answer.to_dict())
    else:
        results.print(*answer_lines(answer), sep="\n", soft_wrap=True)
    listeners.tell(state_after(answer, latest_state(ledger, population)))
    raise typer.Exit(answer.code)
