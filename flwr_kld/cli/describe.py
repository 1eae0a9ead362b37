"""``flwr-kld describe``: what clients' data look like, asked once for each key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.check import check_key
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    Connection,
    FlowerApp,
    LedgerUrl,
    Population,
    RunConfig,
    Timeout,
    print_json,
    results,
    say,
)
from flwr_kld.cli.reference import ReferenceMaker, require_ending, require_place
from flwr_kld.domain.table import Table
from flwr_kld.report.statistics_report import StatisticsReport, statistics_table


def describe(
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    key: Annotated[
        str, typer.Option(help="Name of the description, such as 2026-09: each is charged once.")
    ],
    reference: Annotated[
        Path | None,
        typer.Option(help="Keep what was released as a reference, too: .npz or .json."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Write table.toml, too, with bins between quantiles of what was released: after a "
            "first look at numbers whose range nobody knows."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write it, too: .html (a page), .png or .svg (a picture), .csv, .json, or .prom."
        ),
    ] = None,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Say what clients' data look like: of each column the values, what is missing, their law.

    Clients are asked only once for each --key: the same command shows again, free of charge, what
    the ledger has.

    Exit codes: 0 described, 3 refused (budget, cohort, guard), 4 error.
    """
    if reference is not None:
        require_ending(reference)
        require_place(reference)
    if table is not None:
        require_place(table)
    if save is not None:
        StatisticsReport.require_form(save)
        require_place(save)
    runs = ReferenceMaker(ledger, population, app, connection, run_config or (), timeout)
    made = runs.make(check_key(key))
    if reference is not None and made.reference is not None:
        made.reference.save(reference)
    if save is not None and made.report is not None:
        made.report.save(save)
    if as_json:
        written = str(reference) if reference and made.reference else None
        print_json({"file": written, **made.to_dict()})
    elif made.report is None:
        results.print(*made.lines(), sep="\n", soft_wrap=True)
    else:
        results.print(made.head("description"), soft_wrap=True)
        results.print(f"About {made.report.whom}", markup=False, soft_wrap=True)
        results.print(statistics_table(made.report.columns))
        results.print(made.report.brief, markup=False, soft_wrap=True)
    if made.reference is not None:
        kept = reference or "the same command with --reference FILE keeps it as a reference"
        say(f"{kept}: reference {made.reference.fingerprint}")
        if table is not None and made.report is not None:
            domain = made.reference.domain
            if not isinstance(domain, Table):
                raise ValueError("what was described is not a table: leave --table out")
            made.report.rebinned(domain).to_toml(table)
            say(f"{table}: bins of what was released; nodes read it before the next question")
    raise typer.Exit(made.exit_code)
