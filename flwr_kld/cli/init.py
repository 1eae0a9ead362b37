"""``flwr-kld init``: from public rows to a Flower app that checks for drift."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.accounting import Budget, Ledger
from flwr_kld.accounting.errors import NoBudget
from flwr_kld.cli.into_app import checks_into
from flwr_kld.cli.new_app import SIMULATED, Proposal, app_files
from flwr_kld.cli.output import results, say
from flwr_kld.cli.sample import Sample, read_sample
from flwr_kld.cli.schedules import NIGHTLY, Scheduler, check_command, schedule_files
from flwr_kld.operate.schedule import Cron, most_in_window

_PLAY = Budget(1000.0, 1e-6, 1.0, SIMULATED)
"""For simulated checks: they touch nobody."""


def init(
    sample: Annotated[
        str,
        typer.Argument(
            help="PUBLIC rows, .csv or .parquet, or a database's URL with --query; or only their "
            "schema, a Table Schema (.json). Clients and server see some of their values, as edges "
            "and labels."
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="New folder for the app.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="Add checks to this Flower app; shows the changes first.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Change the app without asking.")] = False,
    query: Annotated[str | None, typer.Option(help="SQL that selects a database's rows.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column to check; by default all.")
    ] = None,
    bins: Annotated[int, typer.Option(min=2, help="Most bins for a numeric column.")] = 20,
    labels: Annotated[int, typer.Option(min=1, help="Most labels for a text column.")] = 20,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a row permanently.")
    ] = None,
    clients: Annotated[int, typer.Option(min=2, help="Number of nodes in the deployment.")] = 4,
    epsilon: Annotated[
        float, typer.Option(help="Budget of each person in a window, in nats.")
    ] = 1.0,
    days: Annotated[
        float, typer.Option(help="Length of the budget's rolling window, in days.")
    ] = 30.0,
    threshold: Annotated[float, typer.Option(min=0, help="Tolerated divergence, in nats.")] = 0.1,
    schedule: Annotated[
        Scheduler, typer.Option(help="Scheduler to write the schedule for.")
    ] = "cron",
    at: Annotated[str, typer.Option(help="When checks come: a cron expression, in UTC.")] = NIGHTLY,
    connection: Annotated[
        str, typer.Option(help="SuperLink connection that the schedule names.")
    ] = "prod",
    ledger: Annotated[
        str | None, typer.Option(help="Database of the ledger; by default drift.db in the app.")
    ] = None,
    wheel: Annotated[
        str | None,
        typer.Option(
            help="Path or URL of flwr-kld's wheel, which SuperLink and SuperNodes install for each "
            "run; by default it is installed there already."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(help="Instead of --wheel: URL of a package index that has flwr-kld."),
    ] = None,
) -> None:
    """Write a Flower app that checks the columns of a table; or add checks to an app.

    A first check on simulated clients needs no line of Python.
    """
    if (out is None) == (into is None):
        raise ValueError("give either --out, a new folder, or --into, a Flower app")
    if wheel is not None and index is not None:
        raise ValueError("give --wheel or --index, not both")
    budget = Budget(epsilon, 1e-6, days)
    rows = read_sample(
        sample, query, columns=column, identifier=identifier, bins=bins, labels=labels
    )
    if rows.made_up and into is not None:
        raise ValueError("--into needs public rows: a schema alone gives no reference to check")
    proposal = Proposal(clients, most_in_window(Cron(at), days), budget, threshold, rows.made_up)
    folder = Path(os.path.abspath(out or into or "."))
    if out is not None:
        _require_new(folder)
    ledger = ledger or f"sqlite:///{folder / 'drift.db'}"
    public = rows.file or folder / "public.csv"
    waits_for = None if out is None else proposal.nodes
    scheduled = schedule_files(
        schedule, at, check_command(folder, connection, at, waits_for), ledger=ledger,
        name=folder.name,
    )  # fmt: skip
    if into is not None:
        written = checks_into(
            folder, proposal, ledger=ledger, sample=public, identifier=identifier, wheel=wheel,
            index=index, scheduled=scheduled, yes=yes,
        )  # fmt: skip
        if not written:
            raise typer.Exit(0)
        package = written
    else:
        files = app_files(
            folder.name, rows.reference, proposal, ledger=ledger, sample=public,
            identifier=identifier, wheel=wheel, index=index,
        )  # fmt: skip
        _write(folder, files | scheduled)
        package = folder / folder.name.replace("-", "_")
    rows.reference.save(package / "reference.json")
    if rows.file is None:
        rows.save_rows(public)
    _open(ledger, budget)
    _tell(rows, proposal, folder, ledger)


def _require_new(folder: Path) -> None:
    """Refuse a folder that holds something: nothing of anybody's is written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"{folder} exists: give another --out, or add checks to the app in it with --into"
        )


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _open(url: str, budget: Budget) -> None:
    """Put the budgets in force; one that is in force stays."""
    if not url.startswith("sqlite"):
        say(f"set the budget: flwr-kld budget --ledger {url} --set {budget.epsilon:g}")
        return
    ledger = Ledger(url)
    for own in (budget, _PLAY):
        try:
            ledger.budget(own.population)
        except NoBudget:
            ledger.set_budget(own)


def _made_of_clients(rows: Sample, folder: Path, ledger: str) -> Iterator[tuple[str, str]]:
    """Yield the command by which clients make the reference, where it is made up."""
    if rows.made_up:
        file = folder / folder.name.replace("-", "_") / "reference.json"
        yield (
            f"flwr-kld reference build {file} --from clients --app {folder} --connection "
            f"CONNECTION --run-config 'drift-sample=\"\"' --ledger {ledger} --key first",
            "once, on the deployment, for half of the budget; later checks compare with it",
        )


def _tell(rows: Sample, proposal: Proposal, folder: Path, ledger: str) -> None:
    """Say what was chosen, and what comes next."""
    table, rotation = rows.table, proposal.rotation
    if rows.made_up:
        say(
            f"{rows.place} is a schema: public.csv and the reference are made up, even over what "
            "it allows, and show that checks run. Clients make the real reference."
        )
    else:
        say(
            f"{rows.place} is taken to be public: some of its values are edges and labels that "
            "clients and server see."
        )
    say(f"checked: {', '.join(table.columns)}")
    for name, reason in table.left_out.items():
        say(f"left out: {name}: {reason}")
    if rotation.clients is not None:
        say(f"each check asks {rotation.clients} of {proposal.clients:,} clients, in rotation")
    elif rotation.buckets > 1:
        say(
            f"each check asks all {proposal.clients} clients for one of {rotation.buckets} parts "
            "of their rows, in rotation"
        )
    say(f"budget: {proposal.pace}")
    results.print("next:", markup=False)
    for command, why in (
        (
            f"cd {folder} && flwr run . --stream",
            "a check of two simulated nodes, which share out the sample: node i of n has the rows "
            "i, n + i, 2n + i, …",
        ),
        (
            f"flwr-kld history --ledger {ledger} --population {SIMULATED}",
            "simulated checks so far; flwr-kld report FILE.html, with the same options, is a page "
            "of them",
        ),
        (f"flwr-kld doctor {folder} CONNECTION", "before the first check of a deployment"),
        *_made_of_clients(rows, folder, ledger),
    ):
        results.print(f"  {command}\n      {why}", markup=False, soft_wrap=True)
