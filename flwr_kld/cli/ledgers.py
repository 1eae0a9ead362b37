"""Ledgers as the command line reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from flwr_kld.ledger import Entry, Ledger
from flwr_kld.report import Check, Report

DEFAULT_LEDGER = "sqlite:///drift.db"
DEFAULT_POPULATION = "default"


def existing_ledger(url: str) -> Ledger:
    """Open a ledger that is there: a mistyped name must not become a new, empty one.

    Raises
    ------
    ValueError
        If there is none.
    """
    file = _sqlite_file(url)
    if file is not None and not file.is_file():
        raise ValueError(f"there is no ledger {file}: give --ledger, or set FLWR_KLD_LEDGER")
    return Ledger(url)


def _sqlite_file(url: str) -> Path | None:
    try:
        parsed = sa.make_url(url)
    except ArgumentError:  # `Ledger` explains it
        return None
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def report_of(entry: Entry) -> Report | None:
    """Return the report that an entry holds, if this version can read it."""
    if entry.purpose != "check" or entry.report is None:
        return None
    try:
        return Report.from_dict(entry.report)
    except ValueError:
        return None


def checks_of(entries: Iterable[Entry]) -> list[Check]:
    """Return the checks of a history, numbered as the ledger does; trainings are left out."""
    return [
        Check(entry.number, report, failure=None if report else why_no_report(entry))
        for entry, report in ((e, report_of(e)) for e in entries if e.purpose == "check")
    ]


def broke(entry: Entry) -> bool:
    """Whether an unexpected error ended a check: the note is then its type, and no sentence."""
    return (entry.note or "").isidentifier()


def why_no_report(entry: Entry) -> str:
    """Say why a check has no report, in a clause."""
    if entry.state == "reserved":
        return "it has not ended: it runs, or was cut off; what it reserved is spent"
    if entry.state == "abandoned":
        return f"refused before anybody was asked: {entry.note}"
    if entry.state == "failed":
        how = "the ServerApp broke" if broke(entry) else "nothing was released"
        return f"{how}: {entry.note}"
    return "its report was written by another version of flwr-kld"
