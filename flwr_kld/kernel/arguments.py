"""Checks of arguments: each returns a plain Python value, or raises `InvalidArgument`.

A NumPy scalar passes and comes out as an ``int`` or ``float``, so that nothing fails later in a
Flower record, in JSON or in exact arithmetic. NaN, infinities, booleans, and fractions where a
whole number is due do not pass: a comparison such as ``x < 1`` lets NaN through.

>>> integer("clients", np.int64(3), least=1)
3
>>> finite("rate", float("nan"), above=0, most=0.5)
Traceback (most recent call last):
    ...
flwr_kld.kernel.arguments.InvalidArgument: rate must be a number in (0, 0.5], got nan
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

_NUMBERS = (int, float, Fraction, np.integer, np.floating)
_NO_NUMBERS = (bool, np.timedelta64)
"""Subclasses of integers that are none."""
_LONGEST = 40
_LATEST = 10**11
"""Seconds since 1970, in the year 5138: no clock that is right shows more."""
_Choice = TypeVar("_Choice", bound=str)
_Object = TypeVar("_Object")


class InvalidArgument(ValueError):
    """An argument has a wrong type, or a value out of range."""

    def __init__(self, name: str, expected: str, value: object) -> None:
        super().__init__(f"{name} must be {expected}, got {_shown(value)}")
        self.name, self.expected = name, expected


def integer(
    name: str, value: object, *, least: int | None = None, most: int | None = None, unit: str = ""
) -> int:
    """Return an integer in a range; raise `InvalidArgument` for anything else."""
    number = None
    if isinstance(value, (int, np.integer)) and not isinstance(value, _NO_NUMBERS):
        number = int(value)
    if number is None or not _within(number, least, most):
        what = f"a whole number{f' of {unit}' if unit else ''}"
        raise InvalidArgument(name, f"{what}{_range(least, most)}", value)
    return number


def finite(
    name: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    unit: str = "",
) -> float:
    """Return a finite number in a range; raise `InvalidArgument` for anything else."""
    number = math.nan
    if isinstance(value, _NUMBERS) and not isinstance(value, _NO_NUMBERS):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number) or not _within(number, least, most, above, below):
        what = f"a number{f' of {unit}' if unit else ''}"
        raise InvalidArgument(name, f"{what}{_range(least, most, above, below)}", value)
    return number + 0.0  # -0.0 is 0.0: one number is written in one form


def moment(name: str, value: object) -> float:
    """Return a time in seconds since 1970; it may be negative, and not be far in the future."""
    return finite(name, value, most=_LATEST, unit="seconds since 1970")


def text(name: str, value: object) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(name, "a text that is not empty", value)
    return str(value)


def one_line(name: str, value: object) -> str:
    """Return one line of printable text, which may be empty."""
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidArgument(name, "one line of text", value)
    return str(value)


def choice(name: str, value: object, choices: Iterable[_Choice]) -> _Choice:
    """Return a text that is one of `choices`."""
    for one in choices:
        if isinstance(value, str) and value == one:
            return one
    raise InvalidArgument(name, f"one of {', '.join(repr(str(one)) for one in choices)}", value)


def as_tuple(name: str, values: object) -> tuple[Any, ...]:
    """Return the elements of any iterable but a text, as a tuple."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(name, "a list", values)
    return tuple(values)


def instance(name: str, value: _Object, kind: Any, such_as: str) -> _Object:
    """Return an instance of a class or protocol; `such_as` describes it in the error."""
    is_class = isinstance(value, type) and kind is not Callable  # ``PlainSum`` for ``PlainSum()``
    if is_class or not isinstance(value, kind):
        raise InvalidArgument(name, such_as, value)
    return value


def set_fields(instance: object, **values: object) -> None:
    """Set fields of a frozen dataclass, in its `__post_init__`, to checked values."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _within(
    number: float,
    least: float | None,
    most: float | None,
    above: float | None = None,
    below: float | None = None,
) -> bool:
    return (
        (least is None or number >= least)
        and (most is None or number <= most)
        and (above is None or number > above)
        and (below is None or number < below)
    )


def _range(
    least: float | None,
    most: float | None,
    above: float | None = None,
    below: float | None = None,
) -> str:
    """Write a range: `` in (0, 1]``, `` from 1 to 365``, ``, at least 2``, `` above 0``."""
    low, high = least if above is None else above, most if below is None else below
    if low is not None and high is not None:
        if (low, high) == (least, most) and high > 1:
            return f" from {low:,} to {high:,}"
        opens, closes = "[" if above is None else "(", "]" if below is None else ")"
        return f" in {opens}{low}, {high}{closes}"
    words = {", at least": least, ", at most": most, " above": above, " below": below}
    return "".join(f"{word} {end:,}" for word, end in words.items() if end is not None)


def _shown(value: object) -> str:
    """Write what was given if it is short and plain, else its type."""
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return "a far larger one" if value > 0 else "a far smaller one"
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return str(value)
    if value is None or (isinstance(value, (*_NUMBERS, str)) and len(repr(value)) <= _LONGEST):
        return repr(value)
    return f"a {type(value).__name__}"
