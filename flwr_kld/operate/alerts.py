"""What holds of a population now, and who is told of it: once when it begins, once when it is over.

The operator's TOML file says rules and recipients.
"""

from __future__ import annotations

import logging
import os
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from flwr_kld.accounting import Kind, Ledger
from flwr_kld.accounting.entry import Entry, FailureKind
from flwr_kld.accounting.view import LedgerView
from flwr_kld.codec.model import Model
from flwr_kld.operate.receivers import About, AppriseService, Command, Delivery, Notice, Receiver
from flwr_kld.operate.schedule import Schedule
from flwr_kld.report import Outcome, Verdict
from flwr_kld.report.entries import report_of, why_no_report
from flwr_kld.report.report import Report, drifted

_FURTHEST = 1000
"""Checks that are looked through for one with a number."""
_NAMED = 5
"""Columns that a notice names."""
_AROUND = 5.0
"""Seconds that a delivery may take beyond its deadline."""


@dataclass(frozen=True, kw_only=True)
class Rules(Model, what="the alerts file"):
    """From when on people are told."""

    # Slots of the schedule without a number
    silent_slots: Annotated[int, Field(ge=1, le=1000)] = 2
    # Time that a slot's check may take before it counts as missed
    late_minutes: Annotated[float, Field(ge=0, le=10_000)] = 60.0
    dropouts: Annotated[float, Field(ge=0, le=1)] = 0.5  # Share of clients that may be missing
    link: str | None = None  # Where ``flwr-kld serve`` answers


def conditions(
    view: LedgerView, population: str, rules: Rules, *, schedule: Schedule | None, now: datetime
) -> Iterator[Notice]:
    """Yield what holds and what does not; nothing about what is not known."""
    checks = list(islice(view.newest_first(population, [Kind.CHECK]), _FURTHEST))
    settled = [entry for entry in checks if entry.state == "settled"]
    if (decided := _last_decision(view, settled)) is not None:
        link = _link(rules, f"check?number={decided[0].number}")
        yield _drift(population, *decided, link)
    if settled and (report := report_of(view.with_report(settled[0]))) is not None:
        yield _dropouts(
            population, report, rules, _link(rules, f"check?number={settled[0].number}")
        )
    link = _link(rules, f"checks?population={quote(population, safe='')}")
    if checks:
        yield from _budget(view, population, checks, schedule, link, now)
        if schedule is not None:
            since = settled[0].started if settled else checks[-1].started - timedelta(seconds=1)
            yield _silence(population, checks[0], since, rules, schedule, link, now)


def _last_decision(
    view: LedgerView, settled: Iterable[Entry]
) -> tuple[Entry, Report, Verdict] | None:
    """Return the last check that decided; None if there is none, or one after it is unreadable."""
    for entry in settled:
        report = report_of(view.with_report(entry))
        if report is None:
            return None
        if report.verdict is not None and report.verdict.outcome is not Outcome.INCONCLUSIVE:
            return entry, report, report.verdict
    return None


def _drift(
    population: str, entry: Entry, report: Report, verdict: Verdict, link: str | None
) -> Notice:
    over = verdict.outcome is not Outcome.DRIFT
    lines = [f"check {entry.key}: {verdict.reason}"]
    for name in [] if over else drifted(report.columns)[:_NAMED]:
        lines.append(f"{name}: {report.columns[name].sentence or 'drift'}")
    if report.cost.left is not None:
        lines.append(f"budget left: {report.cost.rest} nats")
    title = f"No more drift in {population}" if over else f"Drift in {population}"
    return Notice(About.DRIFT, population, over, title, tuple(lines), link)


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
    slot, missed, late = schedule.next_after(since), 0, timedelta(minutes=rules.late_minutes)
    while slot + late <= now and missed < rules.silent_slots:
        slot, missed = schedule.next_after(slot), missed + 1
    if missed < rules.silent_slots:
        return Notice(About.SILENCE, population, True, f"Checks of {population} are back", (), link)
    lines = [f"there has been no number since {since:%Y-%m-%d %H:%M} UTC"]
    if last.state != "settled":
        lines.append(f"check {last.key}: {why_no_report(last)}")
    title = f"No check of {population} for {missed} slots or more"
    return Notice(About.SILENCE, population, False, title, tuple(lines), link)


def _link(rules: Rules, page: str) -> str | None:
    return f"{rules.link.rstrip('/')}/{page}" if rules.link else None


_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class _To(Model, what="a recipient in the alerts file"):
    """It has a URL, the environment variable that holds one, or a command."""

    name: _Text
    about: tuple[About, ...] = tuple(About)
    url: _Text | None = None
    url_variable: _Text | None = None
    command: tuple[str, ...] | None = None
    deadline: float = 60.0

    def recipient(self) -> Recipient:
        """Make it, if it can be reached."""
        ways = (self.url, self.url_variable, self.command)
        if sum(way is not None for way in ways) != 1:
            raise ValueError(f"{self.name}: give one of url_variable, url and command")
        try:
            receiver: Receiver = (
                AppriseService(self.url or self._from_environment(), self.deadline)
                if self.command is None
                else Command(self.command, self.deadline)
            )
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return Recipient(self.name, receiver, frozenset(self.about))

    def _from_environment(self) -> str:
        if not (url := os.environ.get(self.url_variable or "")):
            raise ValueError(f"set the environment variable {self.url_variable}")
        return url


@dataclass(frozen=True, kw_only=True)
class _File(Rules, what="the alerts file"):
    to: Annotated[tuple[_To, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Alerts:
    """Whom to tell of what, and when."""

    rules: Rules  # From when on
    recipients: tuple[Recipient, ...]  # Whom

    @classmethod
    def load(cls, path: Path) -> Alerts:
        """Read a file; secrets come from the environment variables that it names."""
        try:
            file = _File.from_file(tomllib.loads(path.read_text(encoding="utf-8")))
            recipients = tuple(to.recipient() for to in file.to)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path} is not a valid TOML file: {error}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if len({one.name for one in recipients}) < len(recipients):
            raise ValueError(f"{path}: two recipients share a name: give each its own")
        if file.link is not None and not file.link.startswith(("https://", "http://")):
            raise ValueError(f"{path}: link must be the address of a page, such as https://…")
        return cls(file, recipients)


logger = logging.getLogger("flwr_kld")


@dataclass(frozen=True)
class Recipient:
    """A receiver, and what it wants to know."""

    name: str  # By which the ledger remembers what it was told
    receiver: Receiver  # Takes the notices
    about: frozenset[About] = frozenset(About)  # What it is told


@dataclass(frozen=True)
class _Due:
    """What this process tells, and no other one until its claim expires."""

    one: Recipient
    notice: Notice
    claim: tuple[float, float] = (0.0, 0.0)  # Since when and until when, by this machine's clock

    @property
    def key(self) -> str:
        return f"{self.notice.about} {self.one.name}"


def tell(
    ledger: Ledger,
    population: str,
    notices: Iterable[Notice],
    recipients: Sequence[Recipient],
) -> list[Delivery]:
    """Deliver what a recipient does not know yet; the ledger remembers who knows what."""
    # It is claimed first, so that processes that run at once tell it once. A claim holds as long as
    # deliveries may take: that of a process that was killed expires, and a later run tells again.
    # One that begins in the future is of a clock that was wrong. The ledger's time is of no use: it
    # may stand still for years.
    # What could not be delivered is given back, and tried again the next time.
    state = f"{population}/told"
    due = [_Due(one, notice) for notice in notices for one in recipients]
    with ledger.changing(state) as kept:
        due = list(_claimed(due, kept, time.time()))
    deliveries = []
    try:
        while due:
            delivery = _deliver(due[0].one, due[0].notice)
            deliveries.append(delivery)
            with ledger.changing(state) as kept:
                _closed(kept, due.pop(0), told=delivery.delivered)
    finally:  # by a signal, too
        if due:
            with ledger.changing(state) as kept:
                for one in due:
                    _closed(kept, one, told=False)
    return deliveries


def _claimed(every: Iterable[_Due], kept: dict[str, Any], now: float) -> Iterator[_Due]:
    """Yield what has to be told and nobody else is telling, claimed for this process."""
    told, claims = kept.get("told", ()), kept.setdefault("claims", {})
    until = now
    for due in every:
        news = due.notice.about in due.one.about and (due.key in told) == due.notice.over
        since, end = claims.get(due.key, (now, now))
        if news and not since <= now < end:
            until += due.one.receiver.deadline + _AROUND  # one is told after the other
            claims[due.key] = now, until
            yield replace(due, claim=(now, until))


def _closed(kept: dict[str, Any], due: _Due, *, told: bool) -> None:
    """Give a claim back, and remember what was told."""
    if kept["claims"].get(due.key) == [*due.claim]:  # else it expired, and somebody else has it
        del kept["claims"][due.key]
    if told:
        others = set(kept.get("told", ())) - {due.key}
        kept["told"] = sorted(others if due.notice.over else others | {due.key})


def _deliver(one: Recipient, notice: Notice) -> Delivery:
    try:
        delivery = replace(one.receiver.take(notice), alert=one.name)
    except Exception as error:  # whatever it is, the others are told
        logger.exception("alert %s of %s broke", one.name, notice.key)
        return Delivery(one.name, False, type(error).__name__)
    if not delivery.delivered:
        logger.error("alert %s of %s not delivered: %s", one.name, notice.key, delivery.detail)
    return delivery
