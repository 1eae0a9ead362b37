"""Composes the costs of releases: the spend of the most-charged person.

Sequential over what asked one client, parallel over clients; by privacy loss distributions, from
the noise tables' own integers, or by a Rényi filter.
Proof notes: ``docs/proofs/composition.md``; for the convolution ``docs/proofs/counts.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.delta import (
    FINE,
    NO_PROTECTION,
    ORDERS,
    ComposedLosses,
    LossDistribution,
    loss_distribution,
)
from flwr_kld.ledger.budget import UNBOUNDED, Budget, Composition
from flwr_kld.ledger.cost import Cost

_PRECISION = 1e-9
"""Of an epsilon, in nats and relative."""
_NOTHING = Fraction(0)
_STEPS = 200
"""Of a Gaussian's grid, in a standard deviation."""
_FAR = 9
"""Standard deviations; a Gaussian exceeds them with a probability below `_LOST`."""
_LOST = Fraction(1, 10**18)
_LEAST_MOVE = 1e-5
"""Of a Gaussian, in standard deviations: a smaller one counts as this."""
_ROUNDING = 1e-12
"""Of a Rényi divergence, relative: covers float64's."""


@lru_cache(maxsize=4096)
def composed_epsilon(costs: tuple[tuple[Cost, int], ...], delta: float) -> float:
    """Epsilon at `delta` of several kinds of releases together; an upper bound."""
    costs = tuple(sorted(costs, key=lambda part: part[0].digest))  # one answer for any order
    parts = [(part, times * n) for cost, times in costs for part, n in _parts(cost)]
    return _least_epsilon(parts, delta)


@lru_cache(maxsize=64)
def _parts(cost: Cost) -> tuple[tuple[LossDistribution, int], ...]:
    """Return the losses of the coordinates that move, and how many coordinates have them."""
    if cost.table is not None:
        moved = Counter(abs(shift) for shift in cost.shifts if shift)
        return tuple((loss_distribution(cost.table, s), times) for s, times in moved.items())
    if cost.noise_multiplier is not None:
        return ((_gaussian_losses(max(1 / float(cost.noise_multiplier), _LEAST_MOVE)), 1),)
    # Whatever is (epsilon, delta)-private reveals no more than this (Kairouz, Oh, Viswanath 2015).
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    if epsilon > NO_PROTECTION:
        delta = 1.0
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([likely, likely * math.exp(-epsilon)])
    return ((LossDistribution(p, np.array([epsilon, -epsilon]), Fraction(delta)), 1),)


def _gaussian_losses(mu: float) -> LossDistribution:
    """Losses of a discrete Gaussian, of which Gaussian noise that moves by `mu` is a function.

    Gaussian noise of variance 4 makes of a discrete Gaussian of variance ``σ² - 4`` a Gaussian of
    variance σ², but for a factor ``1 ± 1e-33`` (Poisson summation).
    """
    shift = max(1, round(mu * _STEPS))  # on the integers, σ is shift / mu
    variance = (shift / mu) ** 2 - 4
    reach = math.ceil(_FAR * math.sqrt(variance))
    outcomes = np.arange(-reach, reach + 1)
    weights = np.exp(-(outcomes**2) / (2 * variance))
    losses = shift * (2 * outcomes + shift) / (2 * variance)
    return LossDistribution(weights / weights.sum(), losses, _LOST)


def _least_epsilon(parts: list[tuple[LossDistribution, int]], delta: float) -> float:
    """Least epsilon of independent coordinates together at `delta`, in nats and rounded up."""
    composition = ComposedLosses(parts, FINE)
    if composition.lost > delta:
        return math.inf
    low, high = 0.0, composition.largest
    square = sum(times * part.mean_square for part, times in parts)
    epsilon = square / 2 + math.sqrt(2 * square * math.log(1 / delta)) if delta else low
    epsilon, rounds = min(epsilon, high), 0  # near the end of a sum of many small losses
    while high - low > _PRECISION * (1 + high):
        found, slope = composition.delta(epsilon)
        low, high = (low, epsilon) if found <= delta else (epsilon, high)
        following, rounds = low, rounds + 1
        if rounds % 9 and slope > 0 and found > 0 and delta > 0:
            # Newton's step on the logarithm, and a hair further: to the other side of the root.
            beyond = _PRECISION / 3 * (1 if found > delta else -1)
            following = epsilon + math.log(found / delta) * float(found) / slope + beyond
        epsilon = following if low < following < high else (low + high) / 2
    return high


@lru_cache(maxsize=64)
def _order(budget: Budget) -> tuple[float, float]:
    """Return the Rényi order at which a budget is kept, and the nats that its delta takes there.

    The order that has the most room for Gaussian noise; it depends on the budget alone. Half of
    delta is for what noise tables lose.
    """
    rest = ORDERS - 1
    taken = np.log1p(-1 / ORDERS) - (math.log(budget.delta / 2) + np.log(ORDERS)) / rest
    best = np.argmax((budget.epsilon - taken) / ORDERS)
    return float(ORDERS[best]), float(taken[best])


@lru_cache(maxsize=4096)
def _renyi(cost: Cost, order: float) -> tuple[Fraction, Fraction]:
    """Return a release's Rényi divergence at an order, rounded up, and its probability of loss."""
    if cost.noise_multiplier is not None:
        nats, lost = order / (2 * float(cost.noise_multiplier) ** 2), _NOTHING
    else:
        nats, lost = 0.0, _NOTHING
        for part, times in _parts(cost):
            lost += times * part.lost
            if lost >= 1:
                return _NOTHING, Fraction(1)
            exponents = np.log(part.p / part.p.sum()) + (order - 1) * part.losses
            top = exponents.max()
            nats += times * float(top + np.log(np.exp(exponents - top).sum())) / (order - 1)
    return Fraction(nats * (1 + _ROUNDING) + _ROUNDING), lost


def _filtered(asked: tuple[tuple[Cost, int], ...], budget: Budget) -> Composed:
    """Add Rényi divergences up at the budget's order: holds whatever chose the releases."""
    order, taken = _order(budget)
    spent = [(n, *_renyi(cost, order)) for cost, n in asked]
    if sum(n * lost for n, _, lost in spent) > budget.exact_delta / 2:
        return Composed(Fraction(UNBOUNDED), Fraction(1), "renyi")
    nats = sum(
        (n * divergence for n, divergence, _ in spent), Fraction(taken) if spent else _NOTHING
    )
    return Composed(min(nats, Fraction(UNBOUNDED)), budget.exact_delta, "renyi")


Profiles = NDArray[np.int64]
"""Releases of each kind, shape [profiles, kinds]."""
_MOST_KINDS = 16
"""Beyond, noise tables are left out and kinds with the same epsilon and delta are one."""
_MOST_PROFILES = 64
"""Beyond, the maximum over all people in each kind stands for the incomparable profiles."""


@dataclass(frozen=True, eq=False)
class Spend:
    """Releases of one kind: one that is asked for, or all of some checks of the past."""

    cost: Cost  # Of each
    members: NDArray[np.int64]  # Numbers of the clients that they ask, sorted, shape [clients]
    times: NDArray[np.int64] | int = 1  # How many of the releases ask each, shape [clients]


@dataclass(frozen=True)
class Composed:
    """What one person's releases cost together."""

    epsilon: Fraction
    delta: Fraction
    composition: Composition


def worst(
    spends: Sequence[Spend],
    budget: Budget,
    *,
    touched: NDArray[np.int64] | None = None,  # Only these clients, by number
    at_least: Fraction = _NOTHING,
) -> Composed:
    """Return the largest guarantee that any one person needs."""
    found = Composed(at_least, _NOTHING, "sum")
    if not spends:
        return found
    if budget.composition != "renyi" and len({spend.cost for spend in spends}) > _MOST_KINDS:
        spends = [replace(spend, cost=spend.cost.bare()) for spend in spends]
    kinds = list({spend.cost: None for spend in spends})
    for profile in _profiles(spends, kinds, touched):
        asked = tuple((kind, int(n)) for kind, n in zip(kinds, profile, strict=True) if n)
        needed = of_person(asked, budget, at_least=found.epsilon)
        found = max(found, needed, key=lambda guarantee: guarantee.epsilon)
    return found


def of_person(
    asked: tuple[tuple[Cost, int], ...], budget: Budget, *, at_least: Fraction = _NOTHING
) -> Composed:
    """Return what several kinds of releases cost one person together, as a budget adds them up.

    Exact from `at_least` on: any sound guarantee that is not above it may be returned.
    """
    needed = _filtered(asked, budget) if budget.composition == "renyi" else added(asked)
    sound = needed.delta <= budget.exact_delta
    if sound and needed.epsilon <= at_least:
        return needed
    if budget.composition == "pld" and 0 < len(asked) <= _MOST_KINDS:
        composed = _composed(asked, budget)
        if not sound or composed.epsilon < needed.epsilon:
            return composed
    return needed if sound else replace(needed, epsilon=Fraction(UNBOUNDED))


def added(asked: tuple[tuple[Cost, int], ...]) -> Composed:
    """Add epsilons and deltas up: basic composition."""
    epsilon = sum((n * cost.epsilon for cost, n in asked), _NOTHING)
    delta = sum((n * cost.delta for cost, n in asked), _NOTHING)
    return Composed(min(epsilon, Fraction(UNBOUNDED)), min(delta, Fraction(1)), "sum")


def _composed(asked: tuple[tuple[Cost, int], ...], budget: Budget) -> Composed:
    """Compose privacy loss distributions, at the budget's delta."""
    epsilon = composed_epsilon(asked, budget.delta)
    return Composed(Fraction(min(epsilon, UNBOUNDED)), budget.exact_delta, "pld")


def _profiles(
    spends: Sequence[Spend], kinds: Sequence[Cost], touched: NDArray[np.int64] | None
) -> Profiles:
    """Return profiles that no touched person exceeds."""
    numbers = [spend.members for spend in spends] + ([] if touched is None else [touched])
    people = 1 + max(int(own[-1]) for own in numbers)
    counts = np.zeros((people, len(kinds)), dtype=np.int64)
    column = {kind: i for i, kind in enumerate(kinds)}
    for spend in spends:
        counts[spend.members, column[spend.cost]] += spend.times
    if touched is not None:
        counts = counts[touched]
    return _frontier(counts)


def _frontier(rows: Profiles) -> Profiles:
    """Leave out profiles that another exceeds."""
    left = rows[np.argsort(-rows.sum(axis=1), kind="stable")]
    kept: list[NDArray[np.int64]] = []
    while len(left):
        if len(kept) == _MOST_PROFILES:
            largest: Profiles = rows.max(axis=0, keepdims=True)
            return largest
        kept.append(left[0])  # none of the others has more releases in all
        left = left[(left > left[0]).any(axis=1)]
    return np.array(kept).reshape(-1, rows.shape[1])
