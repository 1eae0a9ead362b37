"""Dates and times: by public edges, or by the clock and the calendar."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property
from itertools import count, pairwise
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import InvalidArgument
from flwr_kld.table.base import Domain, Symbols, in_order
from flwr_kld.table.records import (
    Column,
    as_column,
    as_number,
    as_text,
    masked_in,
    number_of,
    values_in,
)

_NAMES: dict[str, tuple[str, ...]] = {
    "hour": tuple(f"{hour:02}:00" for hour in range(24)),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    ),
}  # fmt: skip
CALENDARS = tuple(_NAMES.values())
"""Names in the order in which people expect them."""
_HOUR = 3_600_000_000
"""Microseconds."""
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
"""Units of times, of which so many make a microsecond."""
EPOCH = 1e8
"""Numbers from here on count seconds from 1970."""
FINER_EPOCHS = (1e11, 1e14, 1e17)
"""And from here on milliseconds, microseconds, nanoseconds."""
_SINCE = datetime(1970, 1, 1)
_CLOCK = re.compile(r"(\d\d?)(:\d\d(?::\d\d(?:\.\d{1,9})?)?)(?: ?([AaPp])\.?[Mm]\.?)?")
"""A time of day: its hour, the rest, and which half of the day."""
_LONGEST = 32
"""Characters of a time of day."""
_YEARS = "0001-01-01", "9999-12-31T23:59:59.999999"


@dataclass(frozen=True, eq=False)
class Times(Domain):
    """Dates and times, and 'missing', the last symbol.

    A date is its midnight, and a text in ISO 8601 is the time that it spells; so is the number
    20240131, which a loader may have made of that text. Numbers from 1e8 on are seconds since 1970,
    from 1e11, 1e14 and 1e17 on milli-, micro- and nanoseconds. A time is read on its own clock: its
    time zone, if it has one, is left out. A time of day without a date, such as 13:45 or 1:45 pm,
    has an hour and nothing else. Whatever is no time, or is not in the years 1 to 9999, is
    'missing'. Times are compared to the microsecond.

    Parameters
    ----------
    by : "hour", "weekday", "month", or Sequence of (datetime, date or text in ISO 8601)
        Hour of the day, day of the week, month of the year; or edges, strictly increasing and
        without a time zone, that cut time into bins as those of `Binned` cut numbers.

    Raises
    ------
    DomainError
        If it is neither.

    Examples
    --------
    >>> Times("weekday").encode(["2024-01-01", "2024-01-07T23:59", None])
    array([0, 6, 7])
    >>> Times(["2024-01-01", "2025-01-01"]).encode(["2023-12-31", "2024-01-01"])
    array([0, 1])
    """

    by: str | Sequence[str | date]
    kind: ClassVar[str] = "times"
    unlisted: ClassVar[tuple[str, ...]] = ("missing",)
    reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        if isinstance(self.by, str):
            if self.by not in _NAMES:
                raise DomainError(f"Times goes by edges, or by one of {', '.join(_NAMES)}")
            return
        try:
            read = [_time(edge) for edge in in_order("edges", self.by)]
        except InvalidArgument:
            raise DomainError("the edges of Times are a list of datetimes") from None
        edges = [edge for edge in read if edge is not None and edge.tzinfo is None]
        if not edges or len(edges) < len(read):
            raise DomainError(
                "the edges of Times are one or more datetimes or texts such as 2024-01-31T18:00, "
                "without a time zone"
            )
        if any(later <= earlier for earlier, later in pairwise(edges)):
            raise DomainError("the edges of Times must be strictly increasing")
        object.__setattr__(self, "by", tuple(_text(edge) for edge in edges))

    @property
    def size(self) -> int:
        """Number of hours, days, months or bins, and one."""
        return len(self._names) + 1

    def encode(self, records: Any) -> Symbols:
        """Map times to symbols, and all else to 'missing'.

        `records` are an array, a data frame's column, or a sequence of n values of any type;
        the rest is as in `Domain.encode`.
        """
        times = times_in(as_column(records), clocks=self.by == "hour")
        since = times.astype(np.int64)  # 1970, a Thursday
        if self.by == "hour":
            symbols = since // _HOUR % 24
        elif self.by == "weekday":
            symbols = (since // (24 * _HOUR) + 3) % 7
        elif self.by == "month":
            symbols = times.astype("M8[M]").astype(np.int64) % 12
        else:
            edges = np.array(self.by, dtype="M8[us]").astype(np.int64)
            symbols = np.searchsorted(edges, since, side="right")
        return np.where(np.isnat(times), self.size - 1, symbols).astype(np.int64)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the hour, day or month, or the bin as that of `Binned`, or 'missing'."""
        return (*self._names, "missing")[self._index(symbol)]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if isinstance(self.by, str):
            return _NAMES[self.by]
        edges = [str(edge) for edge in self.by]
        inner = [f"[{a}, {b})" for a, b in pairwise(edges)]
        return (f"< {edges[0]}", *inner, f">= {edges[-1]}")


def times_in(column: Column, *, clocks: bool = False) -> NDArray[np.datetime64]:
    """Read values as times, NaT where they are none; datetime64 [us], shape [records].

    With `clocks`, a time of day without a date is one of 1970-01-01.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        held = np.ma.getdata(column)
        times = _in_microseconds(held)
        times[masked_in(column)] = "NaT"
        return times
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        distinct, place = np.unique(np.ma.getdata(column), return_inverse=True)
        times = _from_values(distinct.tolist(), local_time)[place]
    else:
        times = _from_values(values_in(column), clock_time if clocks else local_time)
    times[masked_in(column)] = "NaT"
    return times


def _in_microseconds(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Convert times, NaT outside of the years 1 to 9999: NumPy may raise for those."""
    (unit, count), number = np.datetime_data(times.dtype), times.view(np.int64)
    there, found = ~np.isnat(times), np.full(len(times), "NaT", dtype="M8[us]")
    if unit in _FINER:  # all of them are in some centuries around 1970
        whole, rest = np.divmod(number[there], _FINER[unit])
        found[there] = (whole * count + rest * count // _FINER[unit]).view("M8[us]")
    elif unit != "generic":  # which is NaT and nothing else
        first, last = (np.datetime64(end).astype(times.dtype).astype(np.int64) for end in _YEARS)
        there &= (number >= first) & (number <= last)
        found[there] = times[there].astype("M8[us]")
    return found


def _from_values(
    values: list[Any], read_one: Callable[[Any], datetime | None]
) -> NDArray[np.datetime64]:
    """Read each different text once, and whatever else there is."""
    place = {text: i for i, text in enumerate({v for v in values if type(v) is str})}
    others = [value for value in values if type(value) is not str]
    read = np.array([read_one(value) for value in (*place, *others)], dtype="M8[us]")
    after = count(len(place))
    return read[[place[value] if type(value) is str else next(after) for value in values]]


def local_time(value: Any) -> datetime | None:
    """Read one value on its own clock; None if it is no time."""
    found = _time(value)
    return found if found is None or found.tzinfo is None else found.replace(tzinfo=None)


def clock_time(value: Any) -> datetime | None:
    """Read one value on its own clock, a time of day as one of 1970-01-01; else None."""
    found = local_time(value)
    return day_time(value) if found is None else found


def day_time(value: Any) -> datetime | None:
    """Read a time of day without a date, as one of 1970-01-01; None if it is none."""
    try:
        if isinstance(value, time):
            return datetime.combine(_SINCE, time.replace(value, tzinfo=None))
        text = as_text(value)
        found = None if text is None or len(text) > _LONGEST else _CLOCK.fullmatch(text.strip())
        if found is None:
            return None
        hour = int(found[1])
        if found[3] is not None:
            hour = hour % 12 + 12 * (found[3] in "pP") if 1 <= hour <= 12 else 24
        return datetime.combine(_SINCE, time.fromisoformat(f"{hour:02}{found[2]}"))
    except Exception:
        return None


def _time(value: Any) -> datetime | None:
    """Read one value; None if it is no time."""
    try:
        if type(value) is str and value[4:5] == "-":  # as most are
            return datetime.fromisoformat(value)
        if isinstance(value, np.datetime64):
            value = value.astype("M8[us]").item()  # an int, where Python has no such time
            if isinstance(value, int):
                return None
        elif isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, datetime):  # one of its own: a subclass may override what it likes
            return datetime.combine(value.date(), value.timetz())
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        if isinstance(value, str) and math.isnan(number_of(value)):
            return datetime.fromisoformat(value)
        number = as_number(value)  # of texts too, as a loader may have made one of them
        if number >= EPOCH:
            ticks = 1000.0 ** bisect_right(FINER_EPOCHS, number)  # to a second
            return _SINCE + timedelta(microseconds=number / ticks * 1e6)
        is_date = 1e7 <= number < 1e8 and number.is_integer()
        return datetime.fromisoformat(str(int(number))) if is_date else None
    except Exception:
        return None


def _text(edge: datetime) -> str:
    """Return the shortest usual form."""
    midnight = not (edge.hour or edge.minute or edge.second or edge.microsecond)
    return edge.date().isoformat() if midnight else edge.isoformat()
