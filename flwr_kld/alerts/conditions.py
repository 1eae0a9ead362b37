"""What holds of a population now, as its ledger tells: drift, silence, budget, dropouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from urllib.parse import quote

from flwr_kld.accounting import Kind
from flwr_kld.accounting.entry import Entry, FailureKind
from flwr_kld.accounting.view import LedgerView
from flwr_kld.alerts.notice import About, Notice
from flwr_kld.history.entries import report_of, why_no_report
from flwr_kld.report import Outcome
from flwr_kld.report.columns_table import drifted
from flwr_kld.report.report import Report
from flwr_kld.schedule.times import Schedule

_FURTHEST = 1000
"""Checks that are looked through for one with a number."""
_NAMED = 5
"""Columns that a notice names."""


@dataclass(frozen=True)
class Rules:
    """From when on people are told."""

    silent_slots: int = 2  # Slots of the schedule without a number, >= 1
    # Time that a slot's check may take before it counts as missed
    late: timedelta = timedelta(hours=1)
    dropouts: float = 0.5  # Share of the clients asked that may be missing, in [0, 1]
    link: str | None = None  # Where ``flwr-kld serve`` answers


def conditions(
    view: LedgerView, population: str, rules: Rules, *, schedule: Schedule | None, now: datetime
) -> Iterator[Notice]:
    """Yield what holds and what does not; nothing about what is not known."""
    checks = list(islice(view.newest_first(population, [Kind.CHECK]), _FURTHEST))
    settled = next((entry for entry in checks if entry.state == "settled"), None)
    if settled is not None and (report := report_of(view.with_report(settled))) is not None:
        link = _link(rules, f"check?number={settled.number}")
        yield from _drift(population, settled, report, link)
        yield _dropouts(population, report, rules, link)
    link = _link(rules, f"checks?population={quote(population, safe='')}")
    if checks:
        yield from _budget(view, population, checks, schedule, link, now)
        if schedule is not None:
            since = settled.started if settled else checks[-1].started - timedelta(seconds=1)
            yield _silence(population, checks[0], since, rules, schedule, link, now)


def _drift(population: str, entry: Entry, report: Report, link: str | None) -> Iterator[Notice]:
    verdict = report.verdict
    if verdict is None or verdict.outcome is Outcome.INCONCLUSIVE:
        return
    over = verdict.outcome is Outcome.NO_DRIFT
    lines = [f"check {entry.key}: {verdict.reason}"]
    for name in [] if over else drifted(report.columns)[:_NAMED]:
        lines.append(f"{name}: {report.columns[name].sentence or 'drift'}")
    if report.cost.left is not None:
        lines.append(f"budget left: {report.cost.rest} nats")
    title = f"No more drift in {population}" if over else f"Drift in {population}"
    yield Notice(About.DRIFT, population, over, title, tuple(lines), link)


def _dropouts(population: str, report: Report, rules: Rules, link: str | None) -> Notice:
    cohort = report.cohort
    missing = 1 - cohort.survivors / cohort.asked if cohort.asked else 0.0
    over = missing <= rules.dropouts
    what = "answer again" if over else "are dropping out"
    title = f"Clients of {population} {what}"
    return Notice(About.DROPOUTS, population, over, title, (f"the last check has {cohort}",), link)


def _budget(
    view: LedgerView,
    population: str,
    checks: list[Entry],
    schedule: Schedule | None,
    link: str | None,
    now: datetime,
) -> Iterator[Notice]:
    last = checks[0]
    if last.failure is not None and last.failure.kind is FailureKind.BUDGET:
        words = f"check {last.key} was {why_no_report(last)}"
    elif schedule is not None:
        at = schedule.next_after(now)
        short = view.short_of_room(population, at=at.timestamp())
        words = "" if short is None else f"the check of {at:%Y-%m-%d %H:%M} UTC: {short}"
    else:
        words = ""
    title = f"The budget of {population} has room again"
    if words:
        title = f"The budget of {population} has no room for the next check"
    yield Notice(About.BUDGET, population, not words, title, (words,) if words else (), link)


def _silence(
    population: str,
    last: Entry,
    since: datetime,
    rules: Rules,
    schedule: Schedule,
    link: str | None,
    now: datetime,
) -> Notice:
    """Say whether as many slots as are tolerated have passed since the last number."""
    slot, missed = schedule.next_after(since), 0
    while slot + rules.late <= now and missed < rules.silent_slots:
        slot, missed = schedule.next_after(slot), missed + 1
    if missed < rules.silent_slots:
        return Notice(About.SILENCE, population, True, f"Checks of {population} are back", (), link)
    lines = [f"the last number dates from {since:%Y-%m-%d %H:%M} UTC"]
    if last.state != "settled":
        lines.append(f"check {last.key}: {why_no_report(last)}")
    title = f"No check of {population} for {missed} slots or more"
    return Notice(About.SILENCE, population, False, title, tuple(lines), link)


def _link(rules: Rules, page: str) -> str | None:
    return f"{rules.link.rstrip('/')}/{page}" if rules.link else None
