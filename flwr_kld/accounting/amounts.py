"""Privacy amounts as whole numbers: sums are exact, and no rounding ever frees a budget."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from flwr_kld.kernel.delta import exp_below

NANO = 9
"""Epsilon is kept in 10**-9 nats."""


ATTO = 18
"""Delta is kept in 10**-18."""


UNBOUNDED = 10**15
"""Epsilon in 10**-9 nats that stands for any larger one, infinity included."""


_EXACT = Context(prec=400)


def spent(value: float, digits: int) -> int:
    """Return an amount to spend in units of 10**-digits, rounded up.

    A float counts as the shortest decimal number that denotes it, as it was typed: 0.1 is a tenth.
    """
    return _whole(Decimal(repr(float(value))), digits, ROUND_CEILING)


def limit(value: Decimal, digits: int) -> int:
    """Return a limit in units of 10**-digits, rounded down."""
    return _whole(value, digits, ROUND_FLOOR)


def in_steps(epsilon: int, delta: int, steps: int) -> tuple[int, int]:
    """Return what a release costs over one or two steps between its neighbours, rounded up.

    Two steps at (ε, δ) cost (2ε, (1 + e**ε) δ).
    """
    if steps == 1:
        return epsilon, delta
    twice, most = min(2 * epsilon, UNBOUNDED), 10**ATTO
    if twice == UNBOUNDED or delta >= most:
        return twice, most
    factor = 1 + 1 / exp_below(-epsilon / 10**NANO)
    return twice, min(math.ceil(factor * delta), most)


def shown(amount: int, digits: int) -> str:
    """Write an amount for people."""
    return f"{amount / 10**digits:.10g}"


def in_days(days: float) -> str:
    """Write a number of days for people."""
    return f"{days:g} day{'' if days == 1 else 's'}"


def _whole(value: Decimal, digits: int, rounding: str) -> int:
    return int(value.scaleb(digits, _EXACT).to_integral_value(rounding, _EXACT))
