"""Runs an app by idempotency keys: a key that the ledger has is not run again."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from flwr_kld.cli.common import ExitCode, no_budget, print_note, unavailable
from flwr_kld.cli.flower_app import (
    CHECK_IN_RUN_CONFIG,
    DISCOVERY_IN_RUN_CONFIG,
    STATISTICS_IN_RUN_CONFIG,
    checks_beside_training,
    facts_of,
    require_declared,
    require_same,
)
from flwr_kld.cli.flower_run import FlowerRun, run_app
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.common.errors import LedgerUnavailable, NoBudget
from flwr_kld.kernel.arguments import finite
from flwr_kld.ledger import Kind, Ledger
from flwr_kld.ledger.entry import Entry, FailureKind
from flwr_kld.report import Outcome
from flwr_kld.report.discovery_report import DiscoveryReport
from flwr_kld.report.entries import read_report, why_no_report
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import StatisticsReport

_POLL = 1.0
"""Seconds between two looks at a check that runs elsewhere."""

_UNKNOWN = (
    "the app ran, but the ledger knows nothing of this key: its strategy must use this ledger and "
    "population, and the key that its run config has under '{}'"
)


_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}")


def require_key(key: str) -> str:
    """Return the key if it can stand in a run config, a log and a table."""
    if not _SAFE.fullmatch(key):
        raise ValueError(
            f"{key!r} is not a valid key: use at most 100 letters, digits and . _ : @ + -, "
            "starting with a letter or a digit"
        )
    return key


_Answered = Report | StatisticsReport | DiscoveryReport

_ASKED: dict[Kind, tuple[str, type[_Answered], str]] = {
    Kind.CHECK: (CHECK_IN_RUN_CONFIG, Report, "Watch: alerts, dashboards, schedules"),
    Kind.STATISTICS: (
        STATISTICS_IN_RUN_CONFIG, StatisticsReport, "A reference from past private data",
    ),
    Kind.DISCOVERY: (DISCOVERY_IN_RUN_CONFIG, DiscoveryReport, "Describe the data of a federation"),
}  # fmt: skip
"""Of what an app is asked for, the name in its run config, what the ledger then has, and a page."""


def exit_code_of(report: Report) -> ExitCode:
    """Return the exit code of a finished check; without a threshold it is inconclusive."""
    if report.outcome is None:
        return ExitCode.INCONCLUSIVE
    no_alarm = report.outcome is Outcome.NO_ALARM
    return ExitCode.NO_DRIFT if no_alarm else ExitCode[report.outcome.name]


_STYLE = {
    ExitCode.NO_DRIFT: "bold green",
    ExitCode.DRIFT: "bold red",
    ExitCode.INCONCLUSIVE: "bold yellow",
    ExitCode.REFUSED: "bold yellow",
    ExitCode.ERROR: "bold red",
}


@dataclass(frozen=True)
class Answer:
    """How a key ended."""

    key: str
    code: ExitCode
    ran: bool  # Whether the app ran now
    stored: bool = False  # Whether the ledger had the key; neither, if an error came first
    report: _Answered | None = None  # If there is one
    message: str | None = None  # Why there is none

    @property
    def outcome(self) -> str:
        """In words."""
        made = self.report is not None and not isinstance(self.report, Report)
        return "made" if made else self.code.words

    @property
    def style(self) -> str:
        """Colour on a terminal."""
        return _STYLE[self.code]

    def head(self, what: str) -> Text:
        """Say in one line how it ended."""
        found = Text(self.outcome.upper(), style=self.style)
        found.append(f"  {what} {self.key}", style="default")
        if self.stored:
            found.append(" (already in the ledger: nobody was asked)", style="dim")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return {
            "key": self.key,
            "outcome": self.outcome,
            "exit_code": int(self.code),
            "ran": self.ran,
            "message": self.message,
            "report": self.report and self.report.to_dict(),
        }


@dataclass(frozen=True)
class AppRuns:
    """Whom to ask."""

    ledger: str  # URL of the ledger that the app's strategy writes
    population: str  # Population that is checked
    app: Path  # Folder of the Flower app
    connection: str | None = None  # SuperLink connection; None for Flower's default
    config: Sequence[str] = ()  # Further overrides of the app's run config
    timeout: float = 900.0  # Seconds for a run

    def __post_init__(self) -> None:
        finite("timeout", self.timeout, unit="seconds")

    def once(self, key: str, kind: Kind = Kind.CHECK) -> Answer:
        """Run the app with this key, unless it has run. Errors are answers, too."""
        run, (asks, awaited, page) = None, _ASKED[kind]
        deadline = time.monotonic() + self.timeout
        try:
            ledger = existing_ledger(self.ledger)
            entry = ledger.check(key, population=self.population)
            if entry is None or entry.refused:
                if kind is Kind.CHECK and checks_beside_training(self.app):
                    raise ValueError(
                        f"the checks of {self.app} are rounds of its training, which 'flwr run "
                        f"{self.app}' starts; flwr-kld report shows what they found"
                    )
                require_same(facts_of(self.app, self.config), self.ledger, self.population)
                require_declared(self.app, asks, page)
                ledger.budget(self.population)  # else the app spends in a ledger that is not this
                before = entry
                run = run_app(
                    self.app,
                    self.connection,
                    (*self.config, f'{asks}="{require_key(key)}"'),
                    timeout=self.timeout,
                )
                entry = ledger.check(key, population=self.population)
                if entry == before:  # of an earlier run: this one wrote nothing
                    entry = None
            if entry is not None and entry.state == "reserved" and not (run and run.broke):
                entry = self._wait(ledger, entry, deadline)
        except NoBudget as error:
            why = f"{no_budget(str(error))}; nothing was asked"
            return Answer(key, ExitCode.ERROR, ran=False, message=why)
        except LedgerUnavailable as error:
            why = unavailable(str(error))
            return Answer(key, ExitCode.ERROR, ran=run is not None, message=why)
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            return Answer(key, ExitCode.ERROR, ran=run is not None, message=str(error))
        ran, stored = run is not None, run is None and entry is not None
        if entry is not None and (report := read_report(entry, awaited)) is not None:
            code = exit_code_of(report) if isinstance(report, Report) else ExitCode.NO_DRIFT
            return Answer(key, code, ran, stored, report)
        settled = entry is not None and entry.state == "settled"
        if entry is not None and settled and kind not in (entry.kind, Kind.CHECK):
            why = f"what the ledger has under {key!r} is a {entry.kind}: give another --key"
            return Answer(key, ExitCode.ERROR, ran, message=why)
        code, why = self._without_report(entry, run, asks)
        return Answer(key, code, ran, stored, message=why)

    def _wait(self, ledger: Ledger, entry: Entry, deadline: float) -> Entry:
        """Wait for a check that may be running elsewhere, unless it is too old for that."""
        age = (datetime.now(UTC) - entry.started).total_seconds()
        deadline = min(deadline, time.monotonic() + self.timeout - age)
        if time.monotonic() < deadline:
            print_note(
                f"{entry.key} has not ended yet: waiting for it; if its process was cut off, "
                "give another --key"
            )
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
        why = None if run is None else run.why(self.timeout)
        if entry is not None:
            why = "; ".join(filter(None, (why, why_no_report(entry))))
        return ExitCode.ERROR, why or _UNKNOWN.format(asks)
