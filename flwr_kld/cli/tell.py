"""Who is told of a check beside the operator at the terminal: Prometheus, and alerts on drift."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from flwr_kld.accounting import LedgerError
from flwr_kld.alerts.command import Command
from flwr_kld.alerts.delivery import Alert, send_alerts
from flwr_kld.alerts.webhook import Webhook
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.ledgers import existing_ledger
from flwr_kld.cli.one_check import CheckAnswer
from flwr_kld.cli.output import complain
from flwr_kld.history.entries import report_of
from flwr_kld.report.prometheus import MonitorState, save_metrics


@dataclass(frozen=True)
class Listeners:
    """What happens after each check.

    Parameters
    ----------
    alerts : tuple[Alert, ...]
        Sent on drift, also where the ledger had the answer: receivers know a check by its id, and
        none is lost if the process that ran it died.
    metrics : Path or None
        Prometheus text file.
    """

    alerts: tuple[Alert, ...] = ()
    metrics: Path | None = None

    @classmethod
    def of_options(
        cls,
        *,
        metrics_file: Path | None,
        webhook: str | None,
        webhook_secret: str | None,
        alert_command: str | None,
    ) -> Listeners:
        """Read the options of the command line; refuse what cannot work before anything runs."""
        alerts: list[Alert] = []
        if webhook:
            alerts.append(Webhook(webhook, secret_variable=webhook_secret))
        if alert_command:
            alerts.append(Command(shlex.split(alert_command)))
        if metrics_file is not None and metrics_file.suffix != ".prom":
            raise ValueError(
                f"node_exporter reads files that end in .prom, not {metrics_file}: rename it"
            )
        return cls(tuple(alerts), metrics_file)

    def tell(self, answer: CheckAnswer, state: MonitorState) -> None:
        """Tell everybody; failures are complaints, and never change how the check ended.

        Metrics come first: alerts may take their time.
        """
        if self.metrics is not None:
            try:
                save_metrics([state], self.metrics)
            except (OSError, ImportError) as error:
                complain(f"metrics not written: {error}")
        if answer.code is ExitCode.DRIFT and answer.report is not None:
            for delivery in send_alerts(self.alerts, answer.report):
                if not delivery.delivered:
                    complain(f"alert not delivered: {delivery.alert}: {delivery.detail}")


def latest_state(ledger: str, population: str) -> MonitorState:
    """Return what Prometheus is told of a monitor before its first check in this process."""
    try:
        reports = map(report_of, existing_ledger(ledger).newest_first(population))
        return MonitorState(population, next(filter(None, reports), None))
    except (LedgerError, ValueError):
        return MonitorState(population)


def state_after(answer: CheckAnswer, before: MonitorState) -> MonitorState:
    """Return what Prometheus is told after a check; a check without a number keeps the last one."""
    if answer.report is not None:
        return MonitorState(before.monitor, answer.report)
    return replace(before, outcome=answer.code.words)
