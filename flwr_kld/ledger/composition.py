"""Composes the costs of releases: the spend of the most-charged person.

Sequential over what asked one client, parallel over clients; by privacy loss distributions, from
the noise tables' own integers.
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
    ComposedLosses,
    LossDistribution,
    loss_distribution,
)
from flwr_kld.ledger.budget import UNBOUNDED, Budget, Composition
from flwr_kld.ledger.cost import Cost

_PRECISION = 1e-9
"""Of an epsilon, in nats and relative."""
_NOTHING = Fraction(0)


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
    # Whatever is (epsilon, delta)-private reveals no more than this (Kairouz, Oh, Viswanath 2015).
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    if epsilon > NO_PROTECTION:
        delta = 1.0
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([likely, likely * math.exp(-epsilon)])
    return ((LossDistribution(p, np.array([epsilon, -epsilon]), Fraction(delta)), 1),)


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
    if len({spend.cost for spend in spends}) > _MOST_KINDS:
        spends = [replace(spend, cost=spend.cost.bare()) for spend in spends]
    kinds = list({spend.cost: None for spend in spends})
    for profile in _profiles(spends, kinds, touched):
        asked = tuple((kind, int(n)) for kind, n in zip(kinds, profile, strict=True) if n)
        needed = _added(asked)
        sound = needed.delta <= budget.exact_delta
        if sound and needed.epsilon <= found.epsilon:
            continue
        if budget.composition == "pld" and 0 < len(asked) <= _MOST_KINDS:
            composed = _composed(asked, budget)
            if not sound or composed.epsilon < needed.epsilon:
                needed, sound = composed, True
        if not sound:
            needed = replace(needed, epsilon=Fraction(UNBOUNDED))
        found = max(found, needed, key=lambda guarantee: guarantee.epsilon)
    return found


def _added(asked: tuple[tuple[Cost, int], ...]) -> Composed:
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
