"""The budget of a population, and amounts as whole numbers: added up without rounding."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from flwr_kld.guesses import suggests
from flwr_kld.kernel.arguments import choice, keep, real, text
from flwr_kld.kernel.promise import Protected, check_epsilon_delta

NANO = 9
"""Epsilon is kept in 10**-9 nats."""

ATTO = 18
"""Delta is kept in 10**-18."""

UNBOUNDED = 10**15
"""Epsilon in 10**-9 nats that stands for any larger one, infinity included."""

_LARGEST_DELTA = 1e-4
"""Usual deltas are far below one over the number of records."""

logger = logging.getLogger("flwr_kld")

_TYPED = 15
"""Digits of a decimal number that any float keeps: one of more was not typed as it is."""

_EXACT = Context(prec=400)


def exact(value: float, digits: int) -> Fraction:
    """Return an amount in units of 10**-digits, as it was meant: 0.1 is a tenth, 1/3 a third."""
    typed = Decimal(repr(float(value)))
    meant = Fraction(typed)
    if len(typed.as_tuple().digits) > _TYPED:  # computed: the simplest fraction that is this float
        simple = (Fraction(value).limit_denominator(10**most) for most in range(18))
        meant = next((one for one in simple if float(one) == value), meant)
    return Fraction(meant * 10**digits)


def spent(value: float, digits: int) -> int:
    """Return an amount to spend in units of 10**-digits, rounded up."""
    return math.ceil(exact(value, digits))


def warn_of_delta(delta: float) -> None:
    """Warn of a delta that is no small probability."""
    if delta > _LARGEST_DELTA:
        logger.warning(
            "delta = %g is a probability with which epsilon promises nothing: of n records about "
            "n times delta may be shown as they are; take %g or less",
            delta,
            _LARGEST_DELTA,
        )


def limit(value: Decimal, digits: int) -> int:
    """Return a limit in units of 10**-digits, rounded down."""
    return int(value.scaleb(digits, _EXACT).to_integral_value(ROUND_FLOOR, _EXACT))


def shown(amount: int | Fraction, digits: int) -> str:
    """Write an amount for people."""
    return f"{float(amount / 10**digits):.10g}"


def in_days(days: float) -> str:
    """Write a number of days for people."""
    return f"{days:g} day{'' if days == 1 else 's'}"


DAY = 24 * 60 * 60

_LONGEST_WINDOW = 36_600

Composition = Literal["pld", "sum"]


@suggests(arguments=dict.fromkeys(("days", "window", "period"), "window_days= is its window"))
@dataclass(frozen=True)
class Budget:
    """The most that checks in any window may spend on one person of a population.

    Parameters
    ----------
    epsilon : float
        In nats, > 0.
    delta : float
        In [0, 1). 0 lets only pure releases in, added up. Default 1e-6.
    window_days : float
        Length of the rolling window; at most 36,600. Default 30.
    population : str
        Name of the population whose budget it is. Others have budgets of their own.
    protects : {"record", "client"}
        Whom the amounts are for: each record (default), or each client, where trust models protect
        `WholeClients`. Releases that protect the other are refused.
    composition : {"pld", "sum"}
        The tighter of sum and privacy loss distribution (default), which holds for a schedule that
        was fixed in advance; or sums alone, which also hold where someone looks at reports before
        choosing which kind of check comes next (``docs/proofs/composition.md``).
    """

    epsilon: float
    delta: float = 1e-6
    window_days: float = 30.0
    population: str = "default"
    protects: Protected = "record"
    composition: Composition = "pld"

    def __post_init__(self) -> None:
        epsilon, delta = check_epsilon_delta(self.epsilon, self.delta)
        days = real("window_days", self.window_days, above=0, most=_LONGEST_WINDOW)
        keep(
            self,
            epsilon=epsilon,
            delta=delta,
            window_days=days,
            protects=choice("protects", self.protects, get_args(Protected)),
            composition=choice("composition", self.composition, get_args(Composition)),
        )
        text("population", self.population)
        warn_of_delta(self.delta)
        if not 0 < self.nano_epsilon < UNBOUNDED:
            raise ValueError(f"epsilon must be between 1e-9 and 1e6 nats, got {self.epsilon}")

    @property
    def nano_epsilon(self) -> int:
        """Epsilon in 10**-9 nats, rounded down."""
        return limit(Decimal(repr(float(self.epsilon))), NANO)

    @property
    def atto_delta(self) -> int:
        """Delta in 10**-18, rounded down."""
        return limit(Decimal(repr(float(self.delta))), ATTO)

    @property
    def seconds(self) -> int:
        """Seconds that a spend counts for, rounded up."""
        return max(math.ceil(round(self.window_days * DAY, 3)), 1)

    def __str__(self) -> str:
        delta = f", delta {shown(self.atto_delta, ATTO)}" if self.delta else ""
        return f"epsilon {self.epsilon:g}{delta} in {in_days(self.window_days)}"


@dataclass(frozen=True)
class Spent:
    """What the most-charged person has spent in the window that ends now."""

    # A guarantee for everything that person was asked; epsilon in nats, infinite if nothing can be
    # guaranteed at the budget's delta
    epsilon: float
    delta: float
    left: float  # Epsilon up to the budget, >= 0
    composition: Composition  # Which bound is the tighter one
    # UTC; when the oldest of the window's spends leaves it. None if nothing is spent.
    frees_at: datetime | None
    budget: Budget  # What it is held against
