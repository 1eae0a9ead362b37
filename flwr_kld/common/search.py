"""Searches for the number where a condition ceases to hold, or a function changes its sign.

Whole numbers are searched with `bisect` of the standard library, over a range.

>>> edge(lambda x: x * x <= 2, 0.0, 2.0, within=1e-3) ** 2 <= 2
True
>>> round(root(lambda x: x**3 - 2, 0.0, 2.0, within=1e-9), 6)
1.259921
"""

from __future__ import annotations

import math
from collections.abc import Callable


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
    """Return an x where a continuous function is 0, or crosses it: Chandrupatla's method."""
    # Inverse quadratic interpolation where it is safe, bisection elsewhere (T. R. Chandrupatla
    # 1997, doi:10.1016/s0965-9978(96)00051-8). Importing SciPy's takes half a second in every
    # process.
    a, b = low, high
    at_a, at_b = function(a), function(b)
    if at_a * at_b > 0:
        raise ValueError("the function has the same sign at both ends")
    part = 0.5
    while at_a and at_b:
        x = a + part * (b - a)
        at_x = function(x)
        if at_x * at_a > 0:
            a, at_a, c, at_c = x, at_x, a, at_a
        else:
            a, at_a, b, at_b, c, at_c = x, at_x, a, at_a, b, at_b
        least = max(within, 4 * math.ulp(a)) / abs(b - a)
        if least > 0.5:
            break
        part = 0.5
        place, slope = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        if slope**2 < place and (1 - slope) ** 2 < 1 - place:
            part = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            part += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        part = min(max(part, least), 1 - least)
    return a if abs(at_a) < abs(at_b) else b
