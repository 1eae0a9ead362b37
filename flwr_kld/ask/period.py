"""Periods: whether a check counts all records of a client, or those of some days.

How the period of one check follows that of the last is `SinceLastCheck`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import CheckFailed, DomainError
from flwr_kld.common.strict_model import Model
from flwr_kld.kernel.arguments import InvalidArgument, integer, set_fields
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times

_LONGEST_NAME = 300
"""Characters of a column's name."""
_BETWEEN = 1
"""Symbol of a time between two edges."""
_MOST_DAYS = 3650


@dataclass(frozen=True)
class Period(Model, what="the period of records"):
    """From one time to before another, in a column of the records.

    A record is in it by its own value alone; one whose value is no time is in no period.

    Parameters
    ----------
    column : str
        Column of the records, which the table need not have.
    start, end : str
        Text in ISO 8601, such as ``"2024-01-31"``, without a time zone; times are compared on their
        own clock, as `Times` does.

    Raises
    ------
    ValueError
        If one is no such text, or the end does not come after the start.
    """

    column: str
    start: str
    end: str

    def __post_init__(self) -> None:
        check_column(self.column)
        try:
            start, end = map(str, Times((self.start, self.end)).by)
        except DomainError:
            raise InvalidArgument(
                "period", "from one time in ISO 8601 to a later one", (self.start, self.end)
            ) from None
        set_fields(self, start=start, end=end)

    def holds(self, rows: Any, dialect: Dialect | None) -> NDArray[np.bool_]:
        """Which records are in it, each by itself; shape [records]."""
        times = Table({self.column: Times((self.start, self.end))}, dialect=dialect or Dialect())
        inside: NDArray[np.bool_] = times.encode(rows)[:, 0] == _BETWEEN
        return inside

    def __str__(self) -> str:
        return f"{self.column} from {self.start} to before {self.end}"


@dataclass(frozen=True)
class SinceLastCheck:
    """Whole days since the period of the last check that gave a report, none before its rows exist.

    Records are read on their nodes' own clocks. A day is over everywhere on earth twelve hours
    after it is in UTC, so a period ends at least a day ago, unless the nodes' time zone is given.
    The first period is one day.

    Parameters
    ----------
    column : str
        Column of the records that says when they came.
    lag : int
        Days that late records have to arrive: with 1, the default, a check on 10 March ends before
        the 9th. 0 needs a `zone`.
    zone : str, optional
        The nodes' time zone, an IANA name: the westernmost one, of several. Default UTC.

    Raises
    ------
    ValueError
        If one is none of these.
    """

    column: str
    lag: int = 1
    zone: str | None = None

    def __post_init__(self) -> None:
        check_column(self.column)
        set_fields(
            self,
            lag=integer("lag", self.lag, least=self.zone is None, most=_MOST_DAYS, unit="days"),
        )
        zone_of(self.zone)

    def next(self, last: Period | None, now: datetime | None = None) -> Period:
        """Return the period after the last one; `CheckFailed` if no day of it is over."""
        here = (now or datetime.now(UTC)).astimezone(zone_of(self.zone))
        today = here.date() - timedelta(days=self.lag)
        start, end = str(today - timedelta(days=1)), str(today)
        if last is not None and last.column == self.column:
            start = last.end
        if datetime.fromisoformat(start) >= datetime.fromisoformat(end):
            raise CheckFailed(
                f"no whole day has passed since the last check's period ended, at {start} in "
                f"{self.column}: nobody was asked"
            )
        return Period(self.column, start, end)


def zone_of(name: str | None) -> tzinfo:
    """Return a time zone by its IANA name, UTC without one."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, TypeError, OSError, ZoneInfoNotFoundError):
        raise InvalidArgument(
            "zone", "a time zone's IANA name, such as 'America/Denver'", name
        ) from None


def check_column(name: object) -> None:
    """Refuse what is no name of a column."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidArgument(
            "column", f"a column's name, at most {_LONGEST_NAME} characters", name
        )


_ASKED: ContextVar[Period | None] = ContextVar("period", default=None)


@contextmanager
def of_period(period: Period | None) -> Iterator[None]:
    """Load records for a check of this period."""
    token = _ASKED.set(period)
    try:
        yield
    finally:
        _ASKED.reset(token)


def asked_period() -> Period | None:
    """Return the period of the check for which records are being loaded; None if it has none.

    A loader may leave out what lies outside, so that a large store selects; the node selects again,
    by the column that the period names, which the loader has to give.
    """
    return _ASKED.get()
