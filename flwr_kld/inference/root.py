"""Where a continuous function changes its sign: Chandrupatla's method.

Inverse quadratic interpolation where it is safe, bisection elsewhere (T. R. Chandrupatla 1997,
doi:10.1016/s0965-9978(96)00051-8). Importing SciPy's takes half a second in every process.

>>> round(root(lambda x: x**3 - 2, 0.0, 2.0, within=1e-9), 6)
1.259921
"""

from __future__ import annotations

import math
from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float, *, within: float) -> float:
    """Return an x where the function is 0, or crosses it."""
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
