"""Budgets of populations, in exact fractions: stored and added up without rounding."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Literal, get_args

from flwr_kld.common.guesses import suggests
from flwr_kld.kernel.arguments import choice, finite, set_fields, text
from flwr_kld.kernel.promise import Protected, check_epsilon_delta

UNBOUNDED = 10**6
"""Nats that stand for any larger epsilon, infinity included."""

_LEAST = 1e-9
"""Nats of a budget, at least."""

_LARGEST_DELTA = 1e-4
"""Usual deltas are far below one over the number of records."""

logger = logging.getLogger("flwr_kld")

_TYPED = 12
"""Digits of a decimal number: one of more was not typed as it is."""

_ROUNDED = Fraction(1, 2**52)
"""Of a float, relative: what a typed number loses when it is read, and then divided."""

_WRITTEN = re.compile(r"[0-9]{1,400}(/[1-9][0-9]{0,399})?")
"""An amount as a file keeps it."""


def exact(value: float) -> Fraction:
    """Return an amount as it was meant: 0.1 is a tenth, 1/3 a third."""
    typed = Decimal(repr(float(value)))
    meant = Fraction(typed)
    if len(typed.as_tuple().digits) > _TYPED:  # computed: the simplest fraction that is this near
        near = Fraction(value)
        simple = (near.limit_denominator(10**most) for most in range(18))
        meant = next((one for one in simple if abs(one - near) <= near * _ROUNDED), meant)
    return meant


def written(text: object) -> Fraction:
    """Read an amount that was kept as ``str``; ValueError if it is none."""
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError("this is not an amount")
    return Fraction(text)


def warn_of_delta(delta: float) -> None:
    """Warn of a delta that is no small probability."""
    if delta > _LARGEST_DELTA:
        logger.warning(
            "delta = %g is a probability with which epsilon promises nothing: of n records about "
            "n times delta may be shown as they are; take %g or less",
            delta,
            _LARGEST_DELTA,
        )


def shown(amount: float | Fraction) -> str:
    """Write an amount for people."""
    return f"{float(amount):.10g}"


def in_days(days: float) -> str:
    """Write a number of days for people."""
    return f"{days:g} day{'' if days == 1 else 's'}"


DAY = 24 * 60 * 60

_LONGEST_WINDOW = 36_600

Composition = Literal["pld", "sum", "renyi"]
Ranked = Literal["checks", "training"]


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
    composition : {"pld", "sum", "renyi"}
        The tighter of sum and privacy loss distribution (default), which holds for a schedule that
        was fixed in advance. Where reports decide what is asked next, say whether to train: sums
        alone, for few releases; or a Rényi filter, for many, such as rounds of training
        (``docs/proofs/composition.md``).
    first : {"checks", "training"}
        For whom `kept` is: rounds of training, or everything else that asks (default).
    kept : float
        In nats of epsilon, at least 0 and below it: what the other leaves to `first`, and stops
        before. 0 by default: whoever comes first spends it.
    """

    epsilon: float
    delta: float = 1e-6
    window_days: float = 30.0
    population: str = "default"
    protects: Protected = "record"
    composition: Composition = "pld"
    first: Ranked = "checks"
    kept: float = 0.0

    def __post_init__(self) -> None:
        epsilon, delta = check_epsilon_delta(self.epsilon, self.delta)
        days = finite("window_days", self.window_days, above=0, most=_LONGEST_WINDOW)
        set_fields(
            self,
            epsilon=epsilon,
            delta=delta,
            window_days=days,
            protects=choice("protects", self.protects, get_args(Protected)),
            composition=choice("composition", self.composition, get_args(Composition)),
            first=choice("first", self.first, get_args(Ranked)),
            kept=finite("kept", self.kept, least=0, below=epsilon, unit="nats"),
        )
        text("population", self.population)
        if self.composition == "renyi" and not delta:
            raise ValueError("delta must be above 0 where composition is 'renyi'")
        warn_of_delta(self.delta)
        if not _LEAST <= epsilon < UNBOUNDED:
            raise ValueError(f"epsilon must be between 1e-9 and 1e6 nats, got {self.epsilon}")

    @property
    def exact_epsilon(self) -> Fraction:
        """Epsilon as it was meant."""
        return exact(self.epsilon)

    @property
    def exact_delta(self) -> Fraction:
        """Delta as it was meant."""
        return exact(self.delta)

    def limit(self, who: Ranked) -> Fraction:
        """Return what all may have spent together once one of the two has been let in."""
        return self.exact_epsilon - (exact(self.kept) if self.kept and who != self.first else 0)

    def left(self, who: Ranked, epsilon: Fraction) -> Fraction:
        """Return what is left for one of the two once all have spent so much."""
        return max(self.limit(who) - epsilon, Fraction(0))

    @property
    def seconds(self) -> int:
        """Seconds that a spend counts for, rounded up."""
        return max(math.ceil(round(self.window_days * DAY, 3)), 1)

    def __str__(self) -> str:
        delta = f", delta {shown(self.delta)}" if self.delta else ""
        kept = f", {shown(self.kept)} of it kept for {self.first}" if self.kept else ""
        return f"epsilon {self.epsilon:g}{delta} in {in_days(self.window_days)}{kept}"


@dataclass(frozen=True)
class Spent:
    """What the most-charged person has spent in the window that ends now."""

    # A guarantee for everything that person was asked; epsilon in nats, infinite if nothing can be
    # guaranteed at the budget's delta
    epsilon: float
    delta: float
    left: float  # Epsilon that checks may still spend, >= 0
    composition: Composition  # Which bound is the tighter one
    # UTC; when the oldest of the window's spends leaves it. None if nothing is spent.
    frees_at: datetime | None
    budget: Budget  # What it is held against
    # Of rounds of training, and of everything else: what these alone come to, and what is left
    kinds: dict[Ranked, tuple[float, float]]
