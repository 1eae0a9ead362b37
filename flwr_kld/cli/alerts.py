"""``flwr-kld alerts``: tell people what has begun or ended, also that nothing happens."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import typer

from flwr_kld.accounting.view import LedgerView
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, existing_ledger
from flwr_kld.cli.options import Ledger, Population
from flwr_kld.cli.output import complain, say
from flwr_kld.operate.alerts import Alerts, conditions, tell
from flwr_kld.operate.receivers import About, Notice
from flwr_kld.operate.schedule import Schedule, parse_schedule


def alerts(
    file: Annotated[Path, typer.Argument(help="TOML file: whom to tell of what, and when.")],
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="When checks come; needed to tell of missed slots and of a budget too small for "
            "the next check."
        ),
    ] = None,
    zone: Annotated[str, typer.Option(help="Time zone of --schedule's cron expression.")] = "UTC",
    try_out: Annotated[
        bool, typer.Option("--try", help="Send a test notice to everybody, and its end.")
    ] = False,
) -> None:
    """Tell of drift, silence, budgets and dropouts: each once when it begins, and when it is over.

    Run it every few minutes, from a different machine than the checks if you can: it then notices
    when they stop. The ledger remembers who knows what. Exit code 4 if somebody could not be told.
    """
    settings = Alerts.load(file)
    slots = parse_schedule(schedule, zone=zone) if schedule is not None else None
    if try_out:
        trial = f"test {token_hex(4)}"  # receivers leave out a key that they know
        for over in (False, True):
            test = Notice(About.DRIFT, trial, over, "This is a test of flwr-kld's alerts")
            for one in settings.addressees:
                done = one.receiver.take(test)
                became = "delivered" if done.delivered else "NOT delivered"
                say(f"{one.name}: {became}: {done.detail}")
        return
    if not tell_people(settings, ledger, population, slots):
        raise typer.Exit(ExitCode.ERROR)


def tell_people(settings: Alerts, ledger: str, population: str, slots: Schedule | None) -> bool:
    """Tell whoever does not know it yet what the ledger says now; the ledger remembers who does."""
    now = datetime.now(UTC)
    view = LedgerView(ledger)
    deliveries = tell(
        existing_ledger(ledger),
        population,
        list(conditions(view, population, settings.rules, schedule=slots, now=now)),
        settings.addressees,
        quiet=settings.quiet,
        now=now,
    )
    for delivery in deliveries:
        if delivery.delivered:
            say(f"told {delivery.alert}")
        else:
            complain(f"{delivery.alert} was not told: {delivery.detail}")
    return all(delivery.delivered for delivery in deliveries)
