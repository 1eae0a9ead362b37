"""``flwr-kld alerts``, and who is told of a check beside the operator: people, and Prometheus."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import typer

from flwr_kld.accounting import LedgerError
from flwr_kld.accounting.view import LedgerView
from flwr_kld.cli.app_runs import Answer
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    ExitCode,
    LedgerUrl,
    Population,
    Zone,
    complain,
    existing_ledger,
    say,
    slots_of,
)
from flwr_kld.operate.alerts import Alerts, conditions, tell
from flwr_kld.operate.receivers import About, Notice
from flwr_kld.operate.schedule import Schedule
from flwr_kld.report.entries import report_of
from flwr_kld.report.prometheus import MonitorState, save_metrics
from flwr_kld.report.report import Report


def alerts(
    file: Annotated[Path, typer.Argument(help="TOML file: whom to tell of what, and when.")],
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="When checks come; needed to tell of missed slots and of a budget too small for "
            "the next check."
        ),
    ] = None,
    zone: Zone = "UTC",
    try_out: Annotated[
        bool, typer.Option("--try", help="Send a test notice to everybody, and its end.")
    ] = False,
) -> None:
    """Tell of drift, silence, budgets and dropouts: each once when it begins, and when it is over.

    Run it every few minutes, from a different machine than the checks if you can: it then notices
    when they stop. The ledger remembers who knows what. Exit code 4 if somebody could not be told.
    """
    settings = Alerts.load(file)
    slots = slots_of(schedule, zone)
    if try_out:
        trial = f"test {token_hex(4)}"  # receivers leave out a key that they know
        all_told = True
        for over in (False, True):
            test = Notice(About.DRIFT, trial, over, "This is a test of flwr-kld's alerts")
            for one in settings.recipients:
                done = one.receiver.take(test)
                became = "delivered" if done.delivered else "NOT delivered"
                say(f"{one.name}: {became}: {done.detail}")
                all_told = all_told and done.delivered
    else:
        existing_ledger(ledger).budget(population)  # nothing would ever be told of a mistyped name
        all_told = tell_people(settings, ledger, population, slots)
    if not all_told:
        raise typer.Exit(ExitCode.ERROR)


def tell_people(settings: Alerts, ledger: str, population: str, slots: Schedule | None) -> bool:
    """Tell whoever does not know it yet what the ledger says now; the ledger remembers who does."""
    now = datetime.now(UTC)
    view = LedgerView(ledger)
    deliveries = tell(
        existing_ledger(ledger),
        population,
        list(conditions(view, population, settings.rules, schedule=slots, now=now)),
        settings.recipients,
    )
    for delivery in deliveries:
        if delivery.delivered:
            say(f"told {delivery.alert}")
        else:
            complain(f"{delivery.alert} was not told: {delivery.detail}")
    return all(delivery.delivered for delivery in deliveries)


class Listeners:
    """What happens after each check, by the options of the command line."""

    def __init__(
        self,
        metrics_file: Path | None,
        alerts: Path | None,
        ledger: str,
        population: str,
        slots: Schedule | None,
    ) -> None:
        if metrics_file is not None and metrics_file.suffix != ".prom":
            raise ValueError(
                f"node_exporter reads files that end in .prom, not {metrics_file}: rename it"
            )
        self._metrics = metrics_file
        self._alerts = None if alerts is None else Alerts.load(alerts)
        self._about = ledger, population, slots

    def tell(self, state: MonitorState) -> None:
        """Tell everybody; failures are complaints, and never change how the check ended."""
        # Metrics come first: alerts may take their time. People are told where the ledger had the
        # answer, too: none is lost if the process that ran the check died.
        if self._metrics is not None:
            try:
                save_metrics([state], self._metrics)
            except (OSError, ImportError) as error:
                complain(f"metrics not written: {error}")
        if self._alerts is not None:
            try:
                tell_people(self._alerts, *self._about)
            except (LedgerError, ValueError, ImportError) as error:
                complain(f"nobody was told: {error}")


def latest_state(ledger: str, population: str) -> MonitorState:
    """Return what Prometheus is told of a monitor before its first check in this process."""
    try:
        reports = map(report_of, existing_ledger(ledger).newest_first(population))
        return MonitorState(population, next(filter(None, reports), None))
    except (LedgerError, ValueError, ImportError):
        return MonitorState(population)


def state_after(answer: Answer, before: MonitorState) -> MonitorState:
    """Return what Prometheus is told after a check; a check without a number keeps the last one."""
    if isinstance(answer.report, Report):
        return MonitorState(before.monitor, answer.report)
    return replace(before, outcome=answer.code.words)
