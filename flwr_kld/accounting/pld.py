"""Composition by privacy loss distributions, from the noise tables' own integers.

Proof notes: ``docs/proofs/composition.md``; for the convolution ``docs/proofs/table-noise.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np

from flwr_kld.accounting.amounts import ATTO, NANO
from flwr_kld.accounting.cost import Cost
from flwr_kld.kernel.delta import FINE, ComposedLosses, LossDistribution, loss_distribution

_NO_PROTECTION = 40.0
"""Nats from which on a claim is not worth composing."""
_PRECISION = 1e-9
"""Of an epsilon, in nats and relative."""


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
    epsilon, delta = cost.epsilon / 10**NANO, cost.delta / 10**ATTO
    if epsilon > _NO_PROTECTION:
        delta = 1.0
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([likely, likely * math.exp(-epsilon)])
    return ((LossDistribution(p, np.array([epsilon, -epsilon]), Fraction(delta)), 1),)


def _least_epsilon(parts: list[tuple[LossDistribution, int]], delta: float) -> float:
    """Least epsilon, in nats and rounded up, of independent coordinates together at `delta`.

    Infinite where nothing is guaranteed at `delta`.
    """
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
