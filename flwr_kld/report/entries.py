"""Reads reports from entries of a ledger, and explains entries that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from flwr_kld.ask.period import Period
from flwr_kld.ledger import Kind
from flwr_kld.ledger.entry import Entry, FailureKind
from flwr_kld.report.discovery_report import DiscoveryReport
from flwr_kld.report.envelope import Point, R, content_of
from flwr_kld.report.predictor_report import round_of
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import StatisticsReport

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

_BRIEF = ("reading", "verdict", "moved", "unlisted")
"""Parts of a column that are read quickly: all but figures and counts."""
_BESIDE = (Kind.STATISTICS, Kind.DISCOVERY, Kind.DRAWS)
SHOWN = (Kind.CHECK, *_BESIDE)
"""What a history of checks shows; a predictor has one of its own."""


def read_report(entry: Entry, of: type[R]) -> R | None:
    """Return the report that an entry holds, if it is of this kind and version."""
    try:
        return of.from_dict(entry.report or {})
    except ValueError:
        return None


def report_of(entry: Entry) -> Report | None:
    """Return the report of a check."""
    return read_report(entry, Report)


def brief_report_of(entry: Entry) -> Report | None:
    """Return the same report without the figures of a table's columns: in a third of the time."""
    if not isinstance(entry.report, dict) or not isinstance(entry.report.get("columns"), dict):
        return report_of(entry)
    brief = {
        name: {part: column[part] for part in _BRIEF if part in column}
        for name, column in entry.report["columns"].items()
        if isinstance(column, dict)
    }
    try:
        return Report.of_content({**content_of(entry.report), "columns": brief})
    except ValueError:
        return None


def predictor_of(entry: Entry) -> str | None:
    """Return which predictor's round an entry is; None for anything else."""
    return round_of(entry.key)[0] if entry.kind is Kind.ROUND else None


def last_period(ledger: Ledger, population: str, column: str) -> Period | None:
    """Return the period, in a column, of the last check of a population that gave a report."""
    for entry in ledger.newest_first(population):
        report = brief_report_of(entry)
        if report is not None and report.period is not None and report.period.column == column:
            return report.period
    return None


def back_to(
    newest_first: Iterable[Entry], last: int, wanted: Callable[[Entry], bool]
) -> list[Entry]:
    """Read entries until `last` of them are wanted, and return all that were read, oldest first."""
    read: list[Entry] = []
    left = last
    for entry in newest_first:
        read.append(entry)
        left -= wanted(entry)
        if not left:
            break
    return read[::-1]


def is_check(entry: Entry) -> bool:
    """Whether an entry is a check of drift, whatever became of it."""
    return entry.kind is Kind.CHECK


def checks_before(ledger: Ledger, entries: Sequence[Entry], population: str) -> int:
    """Return how many checks are earlier than these entries."""
    if not entries:
        return 0
    return ledger.count_before(entries[0].number, population=population, kinds=[Kind.CHECK])


def latest_rounds(newest_first: Iterable[Entry], predictor: str, last: int) -> list[Entry]:
    """Return one predictor's latest rounds, oldest first."""
    entries = back_to(newest_first, last, lambda entry: predictor_of(entry) == predictor)
    rounds = [entry for entry in entries if predictor_of(entry) == predictor]
    if not rounds:
        others = ", ".join(predictors_of(entries)) or "none"
        raise ValueError(f"the ledger has no rounds of a predictor {predictor!r}; it has: {others}")
    return rounds


def predictors_of(entries: Iterable[Entry]) -> list[str]:
    """Names of the predictors in a history."""
    return list(dict.fromkeys(filter(None, map(predictor_of, entries))))


def numbered(entries: Iterable[Entry], before: int = 0) -> Iterator[tuple[int, Entry]]:
    """Yield the checks among entries with their numbers, from `before` + 1 on."""
    return enumerate(filter(is_check, entries), before + 1)


def point_of(number: int, entry: Entry, report: R | None) -> Point[R]:
    """Return what a series holds of an entry."""
    return Point(
        number,
        report,
        failure=None if report else f"key {entry.key!r}: {why_no_report(entry)}",
        started=entry.started.isoformat(),
        ended=entry.state != "reserved",
    )


def _summary(entry: Entry) -> str | None:
    """Return the first line of an entry that is no check, if it can be read."""
    for kind in (StatisticsReport, DiscoveryReport):
        if (found := read_report(entry, kind)) is not None:
            return found.summary
    return None


_HOW = {
    FailureKind.COHORT: "refused before anybody was asked",
    FailureKind.BUDGET: "refused before anybody was asked",
    FailureKind.REFUSED: "nothing was released, and this cost nothing",
    FailureKind.UNANSWERED: "nothing was released",
    FailureKind.ERROR: "the ServerApp broke",
}
_NEXT = {
    FailureKind.COHORT: "flwr-kld doctor, then the same key again",
    FailureKind.BUDGET: "flwr-kld budget; once it has room, the same key or the schedule's next",
    FailureKind.REFUSED: "the nodes' logs, and flwr-kld guard check there for when their budget "
    "has room; then the same key or the schedule's next",
    FailureKind.UNANSWERED: "the nodes' logs, then another key",
    FailureKind.ERROR: "the ServerApp's log (flwr log), then another key",
}


def why_no_report(entry: Entry) -> str:
    """Say why a check or round has no report, and what to do next."""
    if entry.state == "reserved":
        return "it has not ended: it runs, or was cut off; what it reserved is spent"
    if entry.failure is not None:
        words = entry.failure.words.rstrip(".")
        return f"{_HOW[entry.failure.kind]}: {words}; next: {_NEXT[entry.failure.kind]}"
    if entry.kind in _BESIDE:
        return f"it is not a drift check: {_summary(entry) or entry.kind}"
    return "its report was written by another version of flwr-kld"


def beside(entry: Entry) -> str | None:
    """Describe an entry that takes a number but is not a check; None for any other."""
    if entry.kind not in _BESIDE:
        return None
    if (summary := _summary(entry)) is not None:
        return f"{entry.kind} {entry.key!r}: {summary}"
    became = "" if entry.state == "settled" else f": {why_no_report(entry)}"
    return f"{entry.kind} {entry.key!r}{became}"
