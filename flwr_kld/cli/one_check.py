"""One check by its idempotency key, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flwr_kld.cli.app_runs import AppRuns
from flwr_kld.cli.exit_codes import ExitCode, exit_code_of
from flwr_kld.cli.flower_run import CHECK_IN_RUN_CONFIG
from flwr_kld.report.entries import report_of
from flwr_kld.report.report import Report


@dataclass(frozen=True)
class CheckAnswer:
    """How a check ended."""

    key: str  # Its idempotency key
    code: ExitCode  # Exit code
    ran: bool  # Whether the app ran now
    stored: bool  # Whether the ledger had the answer; neither, if an error came first
    report: Report | None = None  # What it says, if a number came out
    message: str | None = None  # Why there is no report

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return {
            "key": self.key,
            "outcome": self.code.words,
            "exit_code": int(self.code),
            "ran": self.ran,
            "message": self.message,
            "report": self.report and self.report.to_dict(),
        }


class Checker(AppRuns):
    """Whom to ask for checks."""

    def check(self, key: str) -> CheckAnswer:
        """Run the check of this key, unless it has run. Errors are answers, too."""
        ending = self.once(key, CHECK_IN_RUN_CONFIG)
        report = ending.entry and report_of(ending.entry)
        if report:
            return CheckAnswer(key, exit_code_of(report), ending.ran, ending.stored, report)
        return CheckAnswer(key, ending.code, ending.ran, ending.stored, message=ending.why)
