"""``flwr-kld discover``: the labels that a column does not list, asked once for each key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from flwr_kld.cli.app_runs import AppRuns, head
from flwr_kld.cli.check import check_key
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    Connection,
    ExitCode,
    FlowerApp,
    LedgerUrl,
    Population,
    RunConfig,
    Timeout,
    print_json,
    results,
)
from flwr_kld.cli.flower_run import COLUMN_IN_RUN_CONFIG, DISCOVERY_IN_RUN_CONFIG
from flwr_kld.cli.new_app import quoted
from flwr_kld.report.entries import discovery_of


def discover(
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    column: Annotated[str, typer.Option(help="Column whose unlisted labels are asked for.")],
    key: Annotated[
        str, typer.Option(help="Name of the question, such as 2026-09-job: each is charged once.")
    ],
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Name the labels that a column does not list and that many records share.

    What to ask when a check or a description says "27 % other". Clients are asked only once for
    each --key: the same command shows again, free of charge, what the ledger has.

    Exit codes: 0 answered, 3 refused (budget, cohort, guard), 4 error.
    """
    if '"' in column or "\\" in column:
        raise ValueError("a run config cannot hold a column's name with a quote or a backslash")
    config = (*(run_config or ()), f"{COLUMN_IN_RUN_CONFIG}={quoted(column)}")
    runs = AppRuns(ledger, population, app, connection, config, timeout)
    ending = runs.once(check_key(key), DISCOVERY_IN_RUN_CONFIG)
    report = ending.entry and discovery_of(ending.entry)
    code, why = (ExitCode.NO_DRIFT, None) if report else (ending.code, ending.why)
    if report and report.reading.column != column:
        code = ExitCode.ERROR
        why = f"the ledger has labels of {report.reading.column!r} under this key: give another one"
        report = None
    if as_json:
        told = {"key": key, "exit_code": int(code), "ran": ending.ran, "message": why}
        print_json({**told, "report": report and report.to_dict()})
    else:
        results.print(head(None if report else code, f"question {key}", ran=ending.ran))
        results.print(Text(str(report) if report else why or ""), soft_wrap=True)
    raise typer.Exit(code)
