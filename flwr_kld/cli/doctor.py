"""``flwr-kld doctor``: what would stop a check, before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli import doctor_checks as looks
from flwr_kld.cli.app_facts import facts_of
from flwr_kld.cli.doctor_checks import Finding
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.ledgers import DEFAULT_POPULATION
from flwr_kld.cli.node_versions import the_nodes
from flwr_kld.cli.options import AsJson, Connection, Population, RunConfig
from flwr_kld.cli.output import print_json, results
from flwr_kld.cli.schedules import NIGHTLY
from flwr_kld.operate.schedule import parse_schedule

_MARKS = {"ok": "[green]ok  [/]", "warning": "[yellow]warn[/]", "failed": "[bold red]FAIL[/]"}


def doctor(
    app: Annotated[Path, typer.Argument(help="Folder of the Flower app that checks.")],
    connection: Connection = None,
    *,
    ledger: Annotated[
        str | None,
        typer.Option(
            envvar="FLWR_KLD_LEDGER", help="Database of the ledger; by default the app's own."
        ),
    ] = None,
    population: Population = DEFAULT_POPULATION,
    schedule: Annotated[
        str, typer.Option(help="When checks come: a cron expression or 'every 6h'.")
    ] = NIGHTLY,
    zone: Annotated[str, typer.Option(help="Time zone of the cron expression.")] = "UTC",
    clients: Annotated[
        int | None, typer.Option(min=1, help="Nodes of the deployment, for the budget.")
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="A node's guard file; by default the app's own draft.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="A node's signing key, where secure sums are used.")
    ] = None,
    roster: Annotated[Path | None, typer.Option(help="The roster of all nodes.")] = None,
    run_config: RunConfig = None,
    as_json: AsJson = False,
) -> None:
    """Inspect everything that a check needs; this asks for no record, and spends nothing.

    Versions, the app, its connection, reference and guard file, keys and roster, the ledger, and
    its budget against the schedule. With a CONNECTION, a short run asks its SuperLink and
    SuperNodes for their versions. Each line that fails names the command to run next.

    Exit codes: 0 nothing would prevent a check, 4 something would.
    """
    slots = parse_schedule(schedule, zone=zone)
    facts = facts_of(app, run_config or ())
    url = ledger or facts.ledger
    each: list[Callable[[], Iterator[Finding]]] = [
        looks.versions,
        lambda: looks.the_app(app),
        lambda: looks.the_connection(connection),
        lambda: looks.the_reference(app, guard, facts),
        lambda: looks.the_keys(key, roster),
        lambda: looks.the_ledger(facts, url, population, app),
        lambda: looks.the_pace(facts, url, population, slots, clients),
    ]
    found = [finding for look in each for finding in look()]
    stopped = [one for one in found if one.state == "failed" and one.what in ("app", "connection")]
    if connection is not None and not stopped:
        found += the_nodes(app, connection)
    if as_json:
        print_json([vars(finding) for finding in found])
    else:
        for finding in found:
            results.print(_MARKS[finding.state], end=" ")
            results.print(f"{finding.what}: {finding.words}", markup=False, soft_wrap=True)
            if finding.next is not None:
                results.print(f"       next: {finding.next}", markup=False, soft_wrap=True)
    failed = any(finding.state == "failed" for finding in found)
    raise typer.Exit(ExitCode.ERROR if failed else ExitCode.NO_DRIFT)
