"""``flwr-kld describe``: asks once for each key what clients' data look like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from flwr_kld.cli.app_runs import Answer, AppRuns, require_key
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
    print_note,
    refuse_given,
    results,
)
from flwr_kld.cli.flower_app import COLUMN_IN_RUN_CONFIG, checks_beside_training
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.new_app import quoted
from flwr_kld.cli.reference import in_words, require_ending, rows_of_columns
from flwr_kld.cli.show import answer_lines
from flwr_kld.ledger import Kind
from flwr_kld.reference import Reference
from flwr_kld.report.discovery_report import DiscoveryReport
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.stored_reference import stored_reference
from flwr_kld.report.words import brief, some_of
from flwr_kld.table.blind import MOST_UNLISTED
from flwr_kld.table.table import Table
from flwr_kld.views import Description
from flwr_kld.views.files import require_form


def describe(
    context: typer.Context,
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    key: Annotated[
        str, typer.Option(help="Name of the description, such as 2026-09: each is charged once.")
    ],
    discover: Annotated[
        str | None,
        typer.Option(
            help="Instead, find the labels of this column that its table does not list and many "
            "records share.",
            metavar="COLUMN",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="Also write a reference made of what was released, .json."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Also write this table.toml, with bins between quantiles of what was released: "
            "after a first look at numbers whose range nobody knows."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Also write the description: .html (a page), .png or .svg (a picture), .csv, "
            ".json, or .prom (metrics)."
        ),
    ] = None,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Describe the clients' data: each column's values, and what is missing or unlisted.

    With --discover, name labels instead: what to ask when a check says "27 % other". Clients are
    asked only once for each --key: the same command shows again, free of charge, what the ledger
    has.

    Exit codes: 0 described, 3 refused (budget, cohort, guard), 4 error.
    """
    if reference is not None:
        require_ending(reference)
    if save is not None:
        require_form(save, Description.forms)
    if table is not None and table.suffix != ".toml":
        raise ValueError(f"a data dictionary is a .toml file, not {table}")
    files = [file for file in (reference, table, save) if file is not None]
    if discover is not None:
        refuse_given(context, "reference", "table", "save", why="with --discover")
    if len({file.absolute() for file in files}) < len(files):
        raise ValueError(f"{files[-1]} cannot be two files: give each a name of its own")
    for file in files:
        if not file.absolute().parent.is_dir():  # known before anybody is asked
            raise ValueError(f"there is no folder {file.parent}: make it first")
    runs = AppRuns(ledger, population, app, connection, run_config or (), timeout)
    if discover is not None:
        answer = _discover(runs, require_key(key), discover)
        if as_json:
            print_json(answer.to_dict())
        else:
            results.print(*answer_lines(answer, "question"), sep="\n", soft_wrap=True)
        raise typer.Exit(answer.code)
    answer = runs.once(require_key(key), Kind.STATISTICS)
    report = answer.report if isinstance(answer.report, StatisticsReport) else None
    made = None if report is None else _stored(report, key, ledger, population)
    if reference is not None and made is not None:
        made.save(reference)
    view = None
    if made is not None and report is not None:
        named = " ".join(map(quote, filter(None, (str(app), connection))))
        check = f"flwr-kld check {named}, with the same ledger, population and run config"
        if checks_beside_training(app):
            check = f"flwr run {named}"
        shipped = next(app.glob("*/reference.json"), None)
        view = Description(report, _next_step(made, reference, table, check, shipped))
        if save is not None:
            view.save(save)
    if as_json:
        print_json({"file": str(reference) if reference and made else None, **answer.to_dict()})
    else:
        results.print(*answer_lines(answer, "description", view), sep="\n", soft_wrap=True)
    if made is not None:
        if reference is not None:
            print_note(f"{reference}: reference {made.fingerprint}")
            if needed := rows_of_columns(made):
                print_note(f"{reference}: {in_words(made, needed)}")
        for name, unlisted in _blind(made).items():
            print_note(f"column {name!r} is blind: {unlisted}, so that no drift would show")
    if made is not None and report is not None and table is not None:
        if not isinstance(made.domain, Table):
            raise ValueError("what was described is not a table: leave --table out")
        report.rebinned(made.domain).to_toml(table)
        print_note(f"{table}: bins of what was released; nodes read it before the next question")
    raise typer.Exit(answer.code)


def _next_step(
    made: Reference, reference: Path | None, table: Path | None, check: str, shipped: Path | None
) -> str:
    """Say what to do with a description: what was written of it, and what the app has."""
    if table is not None:
        return f"let the app and its nodes read {table}, and describe again with another --key."
    if blind := _blind(made):
        names = some_of([brief(name) for name in blind])
        return f"list the values of {names}, or leave it out, and describe again: another --key."
    if reference is None:
        kept = f"keeps it as the reference {made.fingerprint[:12]} of later checks"
        return f"the same command with --reference FILE {kept}, at no further cost."
    elsewhere = shipped is not None and not (reference.exists() and shipped.samefile(reference))
    once = f", copied to {shipped}" if elsewhere else ""
    return f"{check}, once the app reads {reference}{once}."


def _blind(made: Reference) -> dict[str, str]:
    """Return in which columns a check would show no drift, and what nearly all records are."""
    unlisted = {name: sum(column.unlisted.values()) for name, column in made.columns.items()}
    return {
        name: f"{unlisted[name]:.0%} of the records are "
        f"{' or '.join(map(repr, column.domain.unlisted))}"
        for name, column in made.columns.items()
        if unlisted[name] > MOST_UNLISTED and (column.domain.unlisted_index() < 0).any()
    }


def _stored(report: StatisticsReport, key: str, ledger: str, population: str) -> Reference:
    """Return the reference that the ledger keeps of a description."""
    reference = stored_reference(existing_ledger(ledger), key, population=population)
    if reference.fingerprint != report.reference:
        raise ValueError(
            f"the reference that the ledger keeps as {key!r} is damaged: restore the ledger from a "
            "backup, or give another --key"
        )
    return reference


def _discover(runs: AppRuns, key: str, column: str) -> Answer:
    """Ask for the labels that a column does not list and that many records share."""
    if '"' in column or "\\" in column:
        raise ValueError("a run config cannot hold a column's name with a quote or a backslash")
    asked = f"{COLUMN_IN_RUN_CONFIG}={quoted(column)}"
    answer = replace(runs, config=(*runs.config, asked)).once(key, Kind.DISCOVERY)
    report = answer.report
    if isinstance(report, DiscoveryReport) and report.reading.column != column:
        why = f"the ledger has labels of {report.reading.column!r} under this key: give another one"
        return Answer(key, ExitCode.ERROR, answer.ran, message=why)
    return answer
