"""Runs of an app by idempotency keys: none where the ledger knows the key."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from flwr_kld.accounting import Ledger
from flwr_kld.accounting.entry import Entry, FailureKind
from flwr_kld.cli.common import ExitCode, existing_ledger, exit_code_of, no_budget, say, unavailable
from flwr_kld.cli.flower_app import facts_of, require_same
from flwr_kld.cli.flower_run import CHECK_IN_RUN_CONFIG, FlowerRun, run_app
from flwr_kld.errors import LedgerUnavailable, NoBudget
from flwr_kld.report.entries import report_of, why_no_report
from flwr_kld.report.report import Report

_POLL = 1.0
"""Seconds between two looks at a check that runs elsewhere."""

_UNKNOWN = (
    "the app ran, but the ledger knows nothing of this key: its strategy must use this ledger and "
    "population, and the key that its run config has under '{}'"
)


@dataclass(frozen=True)
class Ending:
    """How a key ended."""

    ran: bool  # Whether the app ran now
    entry: Entry | None  # What the ledger knows
    code: ExitCode  # In one number, if the entry has no report that can be read
    why: str  # Why it has none

    @property
    def stored(self) -> bool:
        """Whether the ledger had the key, so that nothing was asked now."""
        return self.entry is not None and not self.ran


def head(failure: ExitCode | None, what: str, *, ran: bool) -> Text:
    """Say in one line how it ended that something was made, or how it failed."""
    words, style = ("made", "bold green") if failure is None else (failure.words, "bold red")
    found = Text(words.upper(), style=style)
    found.append(f"  {what}", style="default")
    if not ran and failure is None:
        found.append(" (already in the ledger: nobody was asked)", style="dim")
    return found


@dataclass(frozen=True)
class AppRuns:
    """Whom to ask."""

    ledger: str  # URL of the ledger that the app's strategy writes
    population: str  # Population that is checked
    app: Path  # Folder of the Flower app
    connection: str | None = None  # SuperLink connection; None for Flower's default
    config: Sequence[str] = ()  # Further overrides of the app's run config
    timeout: float = 900.0  # Seconds for a run

    def once(self, key: str, asks: str) -> Ending:
        """Run the app with this key, unless it has run. Errors are endings, too."""
        run = None
        deadline = time.monotonic() + self.timeout
        try:
            ledger = existing_ledger(self.ledger)
            entry = ledger.check(key, population=self.population)
            if entry is None or entry.refused:
                require_same(facts_of(self.app, self.config), self.ledger, self.population)
                ledger.budget(self.population)  # else the app spends in a ledger that is not this
                before = entry
                run = run_app(
                    self.app,
                    self.connection,
                    (*self.config, f'{asks}="{key}"'),  # of `check_key`: it needs no quoting
                    timeout=self.timeout,
                )
                entry = ledger.check(key, population=self.population)
                if entry == before:  # of an earlier run: this one wrote nothing
                    entry = None
            if entry is not None and entry.state == "reserved" and not (run and run.broke):
                entry = self._wait(ledger, entry, deadline)
        except NoBudget as error:
            why = f"{no_budget(str(error))}; nothing was asked"
            return Ending(False, None, ExitCode.ERROR, why)
        except LedgerUnavailable as error:
            return Ending(run is not None, None, ExitCode.ERROR, unavailable(str(error)))
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            return Ending(run is not None, None, ExitCode.ERROR, str(error))
        return Ending(run is not None, entry, *self._without_report(entry, run, asks))

    def _wait(self, ledger: Ledger, entry: Entry, deadline: float) -> Entry:
        """Wait for a check that may be running elsewhere, unless it is too old for that."""
        age = (datetime.now(UTC) - entry.started).total_seconds()
        deadline = min(deadline, time.monotonic() + self.timeout - age)
        if time.monotonic() < deadline:
            say(f"{entry.key} has not ended yet: waiting for it")
        while entry.state == "reserved" and time.monotonic() < deadline:
            time.sleep(_POLL)
            entry = ledger.check(entry.key, population=self.population) or entry
        return entry

    def _without_report(
        self, entry: Entry | None, run: FlowerRun | None, asks: str
    ) -> tuple[ExitCode, str]:
        """Return what to say if there is no report."""
        if entry is not None and entry.failure is not None:
            broke = entry.failure.kind is FailureKind.ERROR
            return ExitCode.ERROR if broke else ExitCode.REFUSED, why_no_report(entry)
        why = None if run is None else run.why(self.timeout, asks)
        if entry is not None:
            why = "; ".join(filter(None, (why, why_no_report(entry))))
        return ExitCode.ERROR, why or _UNKNOWN.format(asks)


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
