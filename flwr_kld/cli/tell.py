"""Who is told of a check beside the operator at the terminal: Prometheus, and people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flwr_kld.accounting import LedgerError
from flwr_kld.cli.alerts import tell_people
from flwr_kld.cli.ledgers import existing_ledger
from flwr_kld.cli.one_check import CheckAnswer
from flwr_kld.cli.output import complain
from flwr_kld.operate.alerts import Alerts
from flwr_kld.operate.schedule import Schedule
from flwr_kld.report.entries import report_of
from flwr_kld.report.prometheus import MonitorState, save_metrics


@dataclass(frozen=True)
class Listeners:
    """What happens after each check."""

    ledger: str  # URL of the ledger, and which of its populations
    population: str
    slots: Schedule | None  # Of the checks
    # Whom to tell, also where the ledger had the answer: none is lost if the process that ran the
    # check died
    alerts: Alerts | None = None
    metrics: Path | None = None  # Prometheus text file

    @classmethod
    def of_options(
        cls,
        metrics_file: Path | None,
        alerts: Path | None,
        ledger: str,
        population: str,
        slots: Schedule | None,
    ) -> Listeners:
        """Read the options of the command line; refuse what cannot work before anything runs."""
        if metrics_file is not None and metrics_file.suffix != ".prom":
            raise ValueError(
                f"node_exporter reads files that end in .prom, not {metrics_file}: rename it"
            )
        people = None if alerts is None else Alerts.load(alerts)
        return cls(ledger, population, slots, people, metrics_file)

    def tell(self, state: MonitorState) -> None:
        """Tell everybody; failures are complaints, and never change how the check ended.

        Metrics come first: alerts may take their time.
        """
        if self.metrics is not None:
            try:
                save_metrics([state], self.metrics)
            except (OSError, ImportError) as error:
                complain(f"metrics not written: {error}")
        if self.alerts is not None:
            try:
                tell_people(self.alerts, self.ledger, self.population, self.slots)
            except (LedgerError, ValueError, ImportError) as error:
                complain(f"nobody was told: {error}")


def latest_state(ledger: str, population: str) -> MonitorState:
    """Return what Prometheus is told of a monitor before its first check in this process."""
    try:
        reports = map(report_of, existing_ledger(ledger).newest_first(population))
        return MonitorState(population, next(filter(None, reports), None))
    except (LedgerError, ValueError, ImportError):
        return MonitorState(population)


def state_after(answer: CheckAnswer, before: MonitorState) -> MonitorState:
    """Return what Prometheus is told after a check; a check without a number keeps the last one."""
    if answer.report is not None:
        return MonitorState(before.monitor, answer.report)
    return replace(before, outcome=answer.code.words)
