"""Reads records so that no value of one can raise, or change how another is read.

A refusal, a dropout, or a neighbour's symbol that depended on one record would leak it without
any noise. So each record is read by itself; only the *form* of the whole answer can be refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError

if TYPE_CHECKING:
    import narwhals as nw

Column = NDArray[Any] | list[Any]
"""One value a record: an array of one dimension, or a list of anything."""

_NOT_A_COLUMN = "records of one feature must be a list, an array, or a column of a data frame"
_UNREADABLE = object()
"""Stands for a value that is there, and that Python cannot hold."""
_PANDAS_MISSING = ("NAType", "NaTType")
_NUMERIC = frozenset((int, float))
_TRUTH = {"false": 0.0, "true": 1.0}
_MAYBE_SHORT = (np.ndarray, np.float16, np.float32)
_SECONDS = {
    "W": (604_800, 1), "D": (86_400, 1), "h": (3_600, 1), "m": (60, 1), "s": (1, 1),
    "ms": (1, 10**3), "us": (1, 10**6), "ns": (1, 10**9), "ps": (1, 10**12), "fs": (1, 10**15),
    "as": (1, 10**18),
}  # fmt: skip
"""Of each of NumPy's units of durations: seconds of one, or how many of them make a second."""
_LEAST = -45
_POWERS = np.array([float(f"1e{power}") for power in range(_LEAST, 39)])
"""Powers of ten among short floats, the first of which is that of `_LEAST`."""
_TIME_ZONE_DAYS = 10_000_000
"""From 1970, some 27,000 years: time zones are known for these times."""


def as_column(records: Any) -> Column:
    """Take a loader's answer as one value a record."""
    column: Column = records
    if not isinstance(records, np.ndarray):
        if isinstance(records, list | tuple):
            return _seconds_in(list(records))
        if isinstance(records, str | bytes | bytearray | Mapping):
            raise DomainError(_NOT_A_COLUMN)
        series = _series(records)
        try:
            if series is not None:
                column = _from_series(series)
            else:
                column = np.asanyarray(records) if hasattr(records, "__array__") else list(records)
        except Exception:  # its text may quote the data
            raise DomainError(_NOT_A_COLUMN) from None
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise DomainError(
            f"records of one feature must have one dimension, not {column.ndim}: "
            "select a single column, such as frame['age'] in place of frame[['age']]"
        )
    if isinstance(column, list) or column.dtype.kind in "mO":
        return _seconds_in(column)
    return as_decimals(column) if is_short(column) else column


def _seconds_in(column: Column) -> Column:
    """Take durations, of whatever unit, for their seconds; NaN for none."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "m":
        held = np.ma.getdata(column)
        seconds = _in_seconds(held.dtype, held.view(np.int64))
        return np.where(np.isnat(held) | np.ma.getmaskarray(column), np.nan, seconds)
    if not any(issubclass(kind, timedelta | np.timedelta64) for kind in set(map(type, column))):
        return column
    seconds = [_seconds(value) for value in column]
    if isinstance(column, np.ndarray):
        column = column.copy()
        column[:] = seconds
        return column
    return seconds


def _in_seconds(kind: np.dtype[Any], ticks: Any) -> Any:
    """Return the seconds of so many ticks of NumPy's durations; NaN of months and years."""
    unit, count = np.datetime_data(kind)
    seconds, parts = _SECONDS.get(unit, (math.nan, 1))
    whole, rest = np.divmod(ticks, parts)
    return (whole + rest / parts) * seconds * count


def _seconds(value: Any) -> Any:
    """Return the seconds of a duration; anything else as it is."""
    try:
        if isinstance(value, np.timedelta64):
            ticks = np.int64(value.view(np.int64))
            return math.nan if np.isnat(value) else float(_in_seconds(value.dtype, ticks))
        if isinstance(value, timedelta):
            return timedelta.total_seconds(value)
    except Exception:  # a subclass may override what it likes
        return math.nan
    return value


def is_short(value: Any) -> bool:
    """Whether it is a float, or an array of floats, of less precision than Python's."""
    return isinstance(value, _MAYBE_SHORT) and value.dtype.kind == "f" and value.itemsize < 8


def as_decimals(floats: Any) -> Any:
    """Take floats of less precision for the short decimals that they stand for: .7, not .69999999.

    So they are on the side of an edge that the same numbers are on as texts. By steps that are
    rounded correctly, which all processors take alike.
    """
    held = np.ma.getdata(floats)
    exact = held.astype(np.float64)
    digits = np.finfo(held.dtype).precision  # that any decimal keeps
    places = digits - _LEAST - np.searchsorted(_POWERS, np.abs(exact), side="right")
    up, down = (_POWERS[np.clip(ways, 0, 22) - _LEAST] for ways in (places, -places))
    with np.errstate(over="ignore"):
        decimals = np.rint(exact * up / down) / up * down
        same = decimals.astype(held.dtype) == held
    found = np.where(same, decimals, exact)
    return np.ma.masked_array(found, floats.mask) if np.ma.isMaskedArray(floats) else found


def _series(records: Any) -> nw.Series[Any] | None:
    """Return the column of a pandas, polars or pyarrow frame, None if it is something else."""
    import narwhals as nw  # where frames are read

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(records, pyarrow.Array):
        records = pyarrow.chunked_array([records])
    column = nw.from_native(records, series_only=True, pass_through=True)
    return column if isinstance(column, nw.Series) else None


def _from_series(series: nw.Series[Any]) -> Column:
    """Return numbers, truth values and times as an array of their own type, else a list.

    Masked, not by NaN: a missing one would turn its neighbours, integers, into floats. A time keeps
    its own clock: the time zone is left out.
    """
    import narwhals as nw

    dtype = series.dtype
    try:
        if isinstance(dtype, nw.Datetime | nw.Date | nw.Duration):
            times: NDArray[Any] = series.to_numpy()
            if isinstance(dtype, nw.Datetime) and dtype.time_zone:
                times = _on_own_clock(series, times)
            if times.dtype.kind in "mM":
                return times
        elif (dtype.is_numeric() and not dtype.is_decimal()) or dtype == nw.Boolean:
            missing = series.is_null()
            if not missing.any():
                return np.asarray(series.to_numpy())
            full = series.fill_null(0 if dtype.is_numeric() else False).to_numpy()
            return np.ma.masked_array(full, mask=missing.to_numpy())
        return list(series.to_list())
    except Exception:  # a type or a value that NumPy or Python does not know: each by itself
        return [_item(series, i) for i in range(len(series))]


def _on_own_clock(series: nw.Series[Any], utc: NDArray[Any]) -> NDArray[Any]:
    """Return the local times of a column with a time zone; NaT in place of those far from any rule.

    polars panics at such a time, and takes the process with it.
    """
    ticks = np.timedelta64(1, "D") // np.array(1, f"m8[{np.datetime_data(utc.dtype)[0]}]")
    days = utc.view(np.int64) // ticks  # NumPy may raise for some
    sound = (days > -_TIME_ZONE_DAYS) & (days < _TIME_ZONE_DAYS)
    local = series.filter(sound.tolist()).dt.replace_time_zone(None).to_numpy()
    times = np.full(len(utc), "NaT", dtype=local.dtype)
    times[sound] = local
    return times


def _item(series: nw.Series[Any], index: int) -> Any:
    try:
        return series.item(index)
    except Exception:
        return _UNREADABLE


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NaT, masked, pandas' NA."""
    if type(value) is str:  # as most are
        return False
    if value is None or value is np.ma.masked:
        return True
    try:  # a value may override what it likes, even its class
        if isinstance(value, np.datetime64 | np.timedelta64):
            return bool(np.isnat(value))
        if isinstance(value, Decimal):
            return value.is_nan()
        if isinstance(value, float | complex | np.inexact):
            return bool(value != value)
    except Exception:
        return False
    return type(value).__name__ in _PANDAS_MISSING


def as_text(value: Any) -> str | None:
    """Return a text, or the text that bytes are, as Python's own; None if it is neither."""
    try:
        if isinstance(value, str):
            return str.__str__(value)  # a subclass may override what it likes
        return bytes.decode(value, errors="replace") if isinstance(value, bytes) else None
    except Exception:
        return None


def text_of(value: Any) -> str | None:
    """Return a text, or the text that a number is written as; None if it is neither.

    A whole number is written alike whatever its type: one missing record makes floats of integers.
    """
    text = as_text(value)
    if text is not None:
        return text
    try:
        if is_short(value):
            value = float(as_decimals(value))
        if isinstance(value, int | np.integer | np.bool_):
            return str(int(value))
        if isinstance(value, complex | np.complexfloating):
            value = float(value.real) if value.imag == 0 else None
        if isinstance(value, float | np.floating):
            number = float(value)
            return str(int(number)) if number.is_integer() else repr(number)
        return str(value) if isinstance(value, Decimal) else None
    except Exception:  # an integer of thousands of digits has no text
        return None


def masked_in(column: Column) -> NDArray[np.bool_]:
    """Which records an array marks as missing itself: masked ones and NaT, shape [records]."""
    if not isinstance(column, np.ndarray):
        return np.zeros(len(column), dtype=bool)
    missing = np.zeros(len(column), dtype=bool)
    if np.ma.isMaskedArray(column) and column.dtype.names is None:
        missing |= np.ma.getmaskarray(column)
    if column.dtype.kind == "M":
        missing |= np.isnat(np.ma.getdata(column))
    return missing


def all_true(flags: NDArray[np.bool_]) -> bool:
    """Return what `flags.all()` does; of few, in a fraction of the time."""
    return not len(flags) or bool(flags[flags.argmin()])


def values_in(column: Column) -> list[Any]:
    """Return a column's values as Python objects."""
    return list(np.ma.getdata(column).tolist() if isinstance(column, np.ndarray) else column)


def numbers_in(column: Column) -> NDArray[np.float64]:
    """Read values as numbers, NaN where they are none; shape [records].

    A text that spells a number or a truth value is that number: one record of text makes NumPy and
    pandas turn a whole column into text. Numbers beyond float64 are infinite.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            numbers = np.ma.getdata(column).astype(np.float64)
    elif isinstance(column, np.ndarray) and column.dtype.kind in "MV":
        numbers = np.full(len(column), np.nan)
    else:
        numbers = _from_values(values_in(column))
    numbers[masked_in(column)] = np.nan
    return numbers


def _from_values(values: list[Any]) -> NDArray[np.float64]:
    if _NUMERIC.issuperset(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:  # an int beyond float64
            pass
    return np.array([_QUICK.get(type(value), as_number)(value) for value in values], np.float64)


def as_number(value: Any) -> float:
    """Read one value; NaN if it is not a number."""
    try:
        value = _seconds(value)
        if is_missing(value) or isinstance(value, np.datetime64):  # of which float() takes some
            return math.nan
        if isinstance(value, np.ndarray) and value.ndim:
            return math.nan
        if is_short(value):
            return float(as_decimals(value))
        if isinstance(value, str | bytes):
            return number_of(value if isinstance(value, str) else value.decode())
        if isinstance(value, complex | np.complexfloating):
            return float(value.real) if value.imag == 0 else math.nan
        return float(value)
    except OverflowError:
        return _infinite(value)
    except Exception:
        return math.nan


def number_of(text: str) -> float:
    """Return the number that a text spells, 0 or 1 for a truth value, NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return _TRUTH.get(text.lower(), math.nan)


_QUICK: dict[type, Callable[[Any], float]] = {
    str: number_of,
    float: float,
    type(None): lambda _: math.nan,
}
"""Types of most values that are no NumPy's, and what `as_number` makes of them."""


def _infinite(value: Any) -> float:
    try:
        return math.inf if value > 0 else -math.inf
    except Exception:
        return math.nan
