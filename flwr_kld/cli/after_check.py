"""Writes metrics and sends notices after a check."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from flwr_kld.cli.app_runs import Answer
from flwr_kld.cli.common import ExitCode, complain
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.notices import Notifier, drift_notice, shown_at
from flwr_kld.ledger import LedgerError
from flwr_kld.report.entries import report_of
from flwr_kld.report.report import Report
from flwr_kld.views.files import METRICS, require_form
from flwr_kld.views.prometheus import MonitorState, save_metrics


class AfterCheck:
    """Writes metrics and sends notices; if that fails, the check ends as it would have."""

    def __init__(
        self, metrics_file: Path | None, notify: Path | None, ledger: str, population: str
    ) -> None:
        if metrics_file is not None and metrics_file.suffix != ".prom":
            raise ValueError(
                f"node_exporter reads files that end in .prom, not {metrics_file}: rename it"
            )
        if metrics_file is not None:
            require_form(metrics_file, [METRICS])
        self._metrics_file = metrics_file
        self._notifier = Notifier.of(notify, os.environ)
        self.state = _latest_state(ledger, population)

    def handle(self, answer: Answer) -> None:
        """Take the answer up; metrics come first, as services may be slow."""
        before = self.state
        self.state = _state_after(answer, before)
        if self._metrics_file is not None:
            try:
                save_metrics([self.state], self._metrics_file)
            except OSError as error:
                complain(f"metrics not written: {error}")
        notice = _notice(answer, before.report)
        if self._notifier is not None and notice is not None and not answer.stored:
            title = f"flwr-kld: {answer.outcome} in {before.monitor}"
            where = shown_at(before.monitor, os.environ)
            for why in self._notifier.send(title, f"{notice}\n{where}"):
                complain(why)


def _notice(answer: Answer, before: Report | None) -> str | None:
    if answer.code is ExitCode.DRIFT and isinstance(answer.report, Report):
        return drift_notice(answer.key, answer.report, before)
    if answer.code in (ExitCode.REFUSED, ExitCode.ERROR):
        what = "was refused" if answer.code is ExitCode.REFUSED else "failed"
        return f"{datetime.now(UTC):%Y-%m-%d}: check {answer.key} {what}: {answer.message}"
    return None


def _latest_state(ledger: str, population: str) -> MonitorState:
    try:
        reports = map(report_of, existing_ledger(ledger).newest_first(population))
        return MonitorState(population, next(filter(None, reports), None))
    except (LedgerError, ValueError, ImportError):
        return MonitorState(population)


def _state_after(answer: Answer, before: MonitorState) -> MonitorState:
    """Return the state after a check; one without a report keeps the last report."""
    if isinstance(answer.report, Report):
        return MonitorState(before.monitor, answer.report)
    return replace(before, outcome=answer.code.words)
