"""One check by its idempotency key: run the app if the ledger has no answer, and read it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr_kld.cli.exit_codes import ExitCode, exit_code_of
from flwr_kld.cli.flower_run import KEY_IN_RUN_CONFIG, FlowerRun, run_app
from flwr_kld.cli.ledgers import broke, report_of, why_no_report
from flwr_kld.cli.output import say
from flwr_kld.ledger import Entry, Ledger
from flwr_kld.report import Report

_POLL = 1.0
"""Seconds between two looks at a check that runs elsewhere."""
_UNKNOWN = (
    "the app ran, and the ledger knows nothing of this check: its strategy must use this ledger "
    f"and population, and the key that its run config has under '{KEY_IN_RUN_CONFIG}'"
)


@dataclass(frozen=True)
class Answer:
    """How a check ended.

    Parameters
    ----------
    key : str
        Its idempotency key.
    code : ExitCode
        In one number.
    ran : bool
        Whether the app ran now; otherwise the ledger had the answer.
    report : Report or None
        What it says, if a number came out.
    message : str or None
        Why none did.
    """

    key: str
    code: ExitCode
    ran: bool
    report: Report | None = None
    message: str | None = None

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


@dataclass(frozen=True)
class Checker:
    """Whom to ask for checks.

    Parameters
    ----------
    ledger : str
        URL of the ledger that the app's strategy writes.
    population : str
        Whose checks.
    app : Path
        Folder of the Flower app.
    connection : str or None
        SuperLink connection; None for Flower's default.
    config : Sequence[str]
        Further overrides of the app's run config.
    timeout : float
        Seconds for a check.
    """

    ledger: str
    population: str
    app: Path
    connection: str | None = None
    config: Sequence[str] = ()
    timeout: float = 900.0

    def check(self, key: str) -> Answer:
        """Run the check of this key, unless it has run. Errors are answers, too."""
        run = None
        deadline = time.monotonic() + self.timeout
        try:
            ledger = Ledger(self.ledger)
            entry = ledger.check(key, population=self.population)
            if entry is None or entry.state == "abandoned":
                run = run_app(
                    self.app, self.connection, key, config=self.config, timeout=self.timeout
                )
                entry = ledger.check(key, population=self.population)
            if entry is not None and entry.state == "reserved":
                entry = self._wait(ledger, entry, deadline)
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            return Answer(key, ExitCode.ERROR, run is not None, message=str(error))
        return self._answer(key, entry, run)

    def _wait(self, ledger: Ledger, entry: Entry, deadline: float) -> Entry:
        """Wait for a check that may be running elsewhere, unless it is too old for that."""
        age = (datetime.now(UTC) - entry.started).total_seconds()
        deadline = min(deadline, time.monotonic() + self.timeout - age)
        if time.monotonic() < deadline:
            say(f"check {entry.key} has not ended yet: waiting for it")
        while entry.state == "reserved" and time.monotonic() < deadline:
            time.sleep(_POLL)
            entry = ledger.check(entry.key, population=self.population) or entry
        return entry

    def _answer(self, key: str, entry: Entry | None, run: FlowerRun | None) -> Answer:
        ran = run is not None
        if entry is not None and (report := report_of(entry)):
            return Answer(key, exit_code_of(report), ran, report)
        if entry is not None and entry.state in ("failed", "abandoned"):
            code = ExitCode.ERROR if broke(entry) else ExitCode.REFUSED
            return Answer(key, code, ran, message=why_no_report(entry))
        if run is not None and run.refusal is not None:
            return Answer(key, ExitCode.REFUSED, ran, message=run.refusal)
        why = None if run is None else run.why(self.timeout)
        if entry is not None:
            why = "; ".join(filter(None, (why, why_no_report(entry))))
        return Answer(key, ExitCode.ERROR, ran, message=why or _UNKNOWN)
