"""Sampler: releases k draws for a cost that is fixed beforehand, and not one more.

One draw costs the width of its box, k draws at most k times that. Three certified bounds; the least
counts:

- pure: ``k * epsilon``;
- the exact (epsilon, delta) of the worst pair of densities in a box, k times: its privacy loss is
  -w, 0 or +w, so k draws have a trinomial law (`trinomial`);
- zero-concentrated: ``k r**2 / 8``, where the log ratio of two possible laws has range r = 2w
  (Cesar and Rogers 2021).

Proof note: ``docs/proofs/integral.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.search import edge
from flwr_kld.integral.base import Floats
from flwr_kld.integral.draws import BoxLaw
from flwr_kld.integral.mollifier import Mollifier
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import InvalidArgument, finite, integer
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import BitSource, SystemBits
from flwr_kld.kernel.vector import OneProcess
from flwr_kld.ledger.budget import Budget
from flwr_kld.ledger.cost import Cost

_MOST_DRAWS = 2**63 - 1
"""NumPy counts no further."""
_MOST_CONVOLVED = 10_000
"""Draws up to which the trinomial law is computed; beyond, the other two bounds serve."""
_ROUNDING = 1e-9
"""Relative; float64 loses at most 4e-12 in sums and products of non-negative numbers here."""
_UNDERFLOW = 1e-290
_WIDER = 1 + Fraction(1, 1 << 50)
"""Widens the box: its floor was rounded to float64."""
_PRECISION = 1e-9
_ORDERS = 1 + np.logspace(-4, 6, 20_001)


def trinomial(box: Mollifier) -> Floats:
    """Law of the worst pair's privacy loss: P(-w), P(0), P(w), shape [3]."""
    # Lifted sets S and S' of base mass s are disjoint where s <= 1/2; otherwise they overlap as
    # little as they can.
    a, ratio = Fraction(box.floor), exp_below(box.epsilon) * _WIDER
    s = (1 - a) / (a * (ratio - 1))
    apart, middle = min(s, 1 - s), abs(1 - 2 * s)
    law = [apart * a, middle * a * (1 if 2 * s <= 1 else ratio), apart * a * ratio]
    return np.array([float(p) for p in law])


def delta_of_draws(box: Mollifier, draws: int, epsilon: float) -> float:
    """Least delta, rounded up, such that k draws are (epsilon, delta)-integrally private."""
    draws = integer("draws", draws, least=1, most=_MOST_CONVOLVED)
    epsilon = finite("epsilon", epsilon, least=0, unit="nats")
    if epsilon >= _pure(box, draws):
        return 0.0
    law = _k_fold(box, draws)[draws + 1 :]  # losses w, 2w, … kw; the others are not above epsilon
    loss = np.arange(1, draws + 1) * (box.epsilon * (1 + _ROUNDING) + float(_WIDER - 1))
    beyond = loss - epsilon
    gain = law @ -np.expm1(-np.maximum(beyond, 0.0))
    return min(1.0, float(gain) * (1 + _ROUNDING) + _UNDERFLOW)


def _pure(box: Mollifier, draws: int) -> float:
    """``k * epsilon``, rounded up."""
    exact = draws * Fraction(box.epsilon)
    total = float(exact)  # rounded once; a k above 2^53 would be rounded before the product
    return total if Fraction(total) >= exact else math.nextafter(total, math.inf)


@lru_cache(maxsize=16)
def _k_fold(box: Mollifier, draws: int) -> Floats:
    """Law of the sum of k losses in units of w, shape [2k + 1]: direct sums, so no cancellation."""
    power, law = trinomial(box), np.ones(1)
    while draws:
        if draws & 1:
            law = np.convolve(law, power)
        draws >>= 1
        if draws:
            power = np.convolve(power, power)
    return law


def epsilon_of_draws(box: Mollifier, draws: int, delta: float) -> float:
    """Least known epsilon, rounded up, of k draws that are (epsilon, delta)-integrally private."""
    draws = integer("draws", draws, least=1, most=_MOST_DRAWS)
    delta = finite("delta", delta, least=0, below=1)
    pure = _pure(box, draws)
    if delta == 0:
        return pure
    known = min(pure, epsilon_of_zcdp(draws * (2 * box.epsilon) ** 2 / 8, delta))
    if draws > _MOST_CONVOLVED or delta_of_draws(box, draws, known) > delta:
        return known
    return edge(
        lambda epsilon: delta_of_draws(box, draws, epsilon) <= delta, known, 0.0, within=_PRECISION
    )


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Epsilon at `delta` of a rho-zero-concentrated release, in nats."""
    # ``min over alpha of rho alpha + ln(1 - 1/alpha) - ln(delta alpha) / (alpha - 1)`` (Canonne,
    # Kamath and Steinke 2020, Proposition 12); each alpha gives a bound, so a grid does no harm.
    bounds = rho * _ORDERS + np.log1p(-1 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1)
    return max(0.0, float(bounds.min()) * (1 + _ROUNDING) + _UNDERFLOW)


class BudgetSpent(RuntimeError):
    """More draws were asked for than were paid for; nothing was drawn."""


@dataclass(frozen=True)
class IntegralEvent:
    """What a sampler's draws cost, all together; what a ledger charges."""

    # Between *any* two sets of private data, whatever they share, the draws are (epsilon, delta)-
    # indistinguishable. So the event is also (epsilon, delta)-private for one record, for one
    # client and for any group of them, and adds to their budgets as it is.

    epsilon: float  # Total of all draws
    delta: float
    draws: int  # k, at most
    private: bool  # False if the draws come from a seed: a simulation

    def cost(self, budget: Budget) -> Cost:
        """Return what the draws cost those whom a budget is for, in its ledger.

        Raises `ValueError` if they come from a seed, which protects nobody.
        """
        if not self.private:
            raise ValueError("seeded draws protect nobody: they cannot be charged to a budget")
        cost = Cost.claimed("integral box", Guarantee(self.epsilon, self.delta))
        return replace(cost, protects=budget.protects)


class Sampler(OneProcess):
    """At most k draws from a private density; shows neither the density nor how it came about.

    The whole cost is due when the first draw leaves: book `event` first, then draw.

    Parameters
    ----------
    law : BoxLaw
        What `mollify` or `mbde` returned.
    draws : int
        k, from 1 to 2**63 - 1, chosen without looking at the private data.
    delta : float
        In [0, 1); 0 is pure epsilon. Default 0.
    bits : BitSource, optional
        Random bits; the operating system's by default. A seed is for simulations.
    """

    __slots__ = ("_bits", "_law", "_left", "_lock", "event")

    def __init__(
        self, law: BoxLaw, draws: int, *, delta: float = 0.0, bits: BitSource | None = None
    ) -> None:
        super().__init__()
        if not isinstance(law, BoxLaw):
            raise InvalidArgument("law", "what mollify or mbde returned", law)
        draws, delta = integer("draws", draws, least=1), finite("delta", delta, least=0, below=1)
        self._law = law
        self._bits = bits or SystemBits()
        self._left = draws
        self._lock = Lock()
        self.event = IntegralEvent(
            epsilon_of_draws(law.box, draws, delta),
            delta,
            draws,
            self._bits.private,
        )
        """What all draws together cost. Public."""

    @property
    def left(self) -> int:
        """Draws that are left."""
        return self._left

    def draw(self, size: int = 1) -> NDArray[np.int64]:
        """Draw `size` symbols; they are public.

        Raises `BudgetSpent` if fewer than `size` are left, and draws none; `ValueError` if `size`
        is below 1; `RuntimeError` in a fork of the process that made the sampler, as both would
        draw from one budget.
        """
        size = integer("size", size, least=1)
        self._stay_here()
        with self._lock:
            if size > self._left:
                raise BudgetSpent(f"{self._left} of {self.event.draws} draws are left, not {size}")
            self._left -= size  # gone before the draw: a failed draw is not given back
        return self._law._draw(size, self._bits)
