"""A reference that a deployment's clients make: run the app once, read what the ledger keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from flwr_kld.accounting import Ledger, LedgerError
from flwr_kld.accounting.entry import Entry
from flwr_kld.accounting.kept_reference import kept_reference
from flwr_kld.cli.app_runs import AppRuns
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.flower_run import REFERENCE_IN_RUN_CONFIG
from flwr_kld.reference import Reference
from flwr_kld.report.entries import reference_report
from flwr_kld.report.reference_report import ReferenceReport


@dataclass(frozen=True)
class Making:
    """How the making of a reference ended."""

    key: str  # Its idempotency key
    # Whether the app ran now; otherwise the ledger had the reference, or an error came first
    ran: bool
    reference: Reference | None = None  # What clients made
    report: ReferenceReport | None = None  # Report of how it was made
    failure: ExitCode | None = None  # `ExitCode.REFUSED` or `ExitCode.ERROR`, if there is none
    message: str | None = None  # Why there is none

    @property
    def exit_code(self) -> int:
        """0 for a reference."""
        return int(self.failure or 0)

    @property
    def outcome(self) -> str:
        """``"made"``, or what went wrong."""
        return "made" if self.failure is None else self.failure.words

    def lines(self) -> Iterator[Text]:
        """Yield how it ended, in lines."""
        style = "bold green" if self.failure is None else "bold red"
        head = Text(self.outcome.upper(), style=style)
        head.append(f"  reference {self.key}", style="default")
        if not self.ran and self.failure is None:
            head.append(" (already in the ledger: nobody was asked)", style="dim")
        yield head
        yield Text(str(self.report) if self.message is None else self.message)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form; of the reference itself, its fingerprint."""
        return {
            "key": self.key,
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "ran": self.ran,
            "message": self.message,
            "report": self.report and self.report.to_dict(),
        }


class ReferenceMaker(AppRuns):
    """Whom to ask for references."""

    def make(self, key: str) -> Making:
        """Have the reference of this key made, unless it was. Errors are answers, too."""
        ending = self.once(key, REFERENCE_IN_RUN_CONFIG)
        entry, ran = ending.entry, ending.ran
        if entry is None or entry.state != "settled":
            return Making(key, ran, failure=ending.code, message=ending.why)
        try:
            return Making(key, ran, *self._kept(entry))
        except (ValueError, LedgerError) as error:
            return Making(key, ran, failure=ExitCode.ERROR, message=str(error))

    def _kept(self, entry: Entry) -> tuple[Reference, ReferenceReport]:
        """Return what the ledger keeps of a key that settled."""
        report = reference_report(entry)
        if report is None:
            raise ValueError(
                f"what the ledger has under {entry.key!r} is not a reference, or is one of another "
                "version of flwr-kld: give another --key"
            )
        reference = kept_reference(Ledger(self.ledger), entry.key, population=self.population)
        if reference.fingerprint != report.reading.reference:
            raise ValueError(
                f"the reference that the ledger keeps as {entry.key!r} is damaged: restore the "
                "ledger from a backup, or give another --key"
            )
        return reference, report
