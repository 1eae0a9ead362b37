"""Composition by privacy loss distributions, from the noise tables' own integers.

Proof notes: ``docs/proofs/composition.md``; for the convolution ``docs/proofs/table-noise.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np

from flwr_kld.accounting.cost import Cost
from flwr_kld.privacy import loss_distribution as losses
from flwr_kld.privacy.amounts import ATTO, NANO
from flwr_kld.privacy.loss_distribution import LossDistribution, loss_distribution

_NO_PROTECTION = 40.0
"""Nats from which on a claim is not worth composing."""


@lru_cache(maxsize=4096)
def composed_epsilon(costs: tuple[tuple[Cost, int], ...], delta: float) -> float:
    """Epsilon at `delta` of several kinds of releases together; an upper bound."""
    costs = tuple(sorted(costs, key=lambda part: part[0].digest))  # one answer for any order
    parts = [(part, times * n) for cost, times in costs for part, n in _parts(cost)]
    return losses.composed_epsilon(parts, delta)


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
