"""Searches for the number where a condition ceases to hold, or a function changes its sign.

Whole numbers are searched with `bisect` of the standard library, over a range.

>>> edge(lambda x: x * x <= 2, 0.0, 2.0, within=1e-3) ** 2 <= 2
True
>>> round(root(lambda x: x**3 - 2, 0.0, 2.0, within=1e-9), 6)
1.259921
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def edge(
    holds: Callable[[float], bool], sure: float, other: float, *, within: float = 0.0
) -> float:
    """Return about the last number from `sure` towards `other` for which a condition holds."""
    # Rounded towards `sure`: what is returned was tried, or is `sure` itself, which is never tried.
    while abs(other - sure) > within * max(abs(sure), abs(other)):
        middle = (sure + other) / 2
        if middle in (sure, other):
            break
        if holds(middle):
            sure = middle
        else:
            other = middle
    return sure


def root(function: Callable[[float], float], low: float, high: float, *, within: float) -> float:
    """Return an x where a continuous function is 0, or crosses it: one of `roots`."""

    def each(x: Floats, _: NDArray[np.int64]) -> Floats:
        return np.array([function(float(x[0]))])

    ends = ((np.array([x]), np.array([function(x)])) for x in (low, high))
    return float(roots(each, *ends, within=np.array([within]))[0])


def roots(
    function: Callable[[Floats, NDArray[np.int64]], Floats],
    low: tuple[Floats, Floats],
    high: tuple[Floats, Floats],
    *,
    within: Floats,
) -> Floats:
    """Return x where continuous functions are 0, or cross it: Chandrupatla's method.

    Parameters
    ----------
    function : Callable
        Returns the values of some of the functions, at ``x``, by their index.
    low, high : tuple[Floats, Floats]
        Two x of each function, and its values there, of opposite signs or 0; all shape [functions].
    within : Floats
        How far x may be off.
    """
    # Inverse quadratic interpolation where it is safe, bisection elsewhere (T. R. Chandrupatla
    # 1997, doi:10.1016/s0965-9978(96)00051-8). Importing SciPy's takes half a second in every
    # process.
    (a, at_a), (b, at_b) = ([np.array(x) for x in end] for end in (low, high))
    if (at_a * at_b > 0).any():
        raise ValueError("the function has the same sign at both ends")
    part, going = np.full(len(a), 0.5), np.flatnonzero((at_a != 0) & (at_b != 0))
    while len(going):
        a1, b1, f1, f2 = a[going], b[going], at_a[going], at_b[going]
        x = a1 + part[going] * (b1 - a1)
        at_x = function(x, going)
        same = at_x * f1 > 0
        c, at_c = np.where(same, a1, b1), np.where(same, f1, f2)
        b1, f2 = np.where(same, b1, a1), np.where(same, f2, f1)
        a[going], at_a[going], b[going], at_b[going] = x, at_x, b1, f2
        least = np.maximum(within[going], 4 * np.spacing(np.abs(x))) / np.abs(b1 - x)
        place, slope = (x - b1) / (c - b1), (at_x - f2) / (at_c - f2)
        safe = (slope**2 < place) & ((1 - slope) ** 2 < 1 - place)
        with np.errstate(divide="ignore", invalid="ignore"):  # where it is not safe
            tried = at_x / (f2 - at_x) * at_c / (f2 - at_c)
            tried += (c - x) / (b1 - x) * at_x / (at_c - at_x) * f2 / (at_c - f2)
        part[going] = np.clip(np.where(safe, tried, 0.5), least, 1 - least)
        going = going[(least <= 0.5) & (at_x != 0) & (f2 != 0)]
    return np.where(np.abs(at_a) < np.abs(at_b), a, b)
