"""Composition by privacy loss distributions, from the noise tables' own integers.

A release is replaced by one that reveals at least as much and whose losses lie on a grid: each
outcome is split between the two grid points around its loss ("connect the dots", Doroshenko et al.
2022), which merging undoes. dp-accounting composes the result.
Proof note: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.accounting.cost import Cost
from flwr_kld.privacy.amounts import ATTO, NANO
from flwr_kld.privacy.loss_distribution import LossDistribution, loss_distribution

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_STEP = 1e-5
"""Smallest grid step in nats."""
_POINTS = 1 << 20
"""Grid points that a composition may take; the step is doubled until it does."""
_MANY = 16
"""Releases from which on a sixteenth of the points do: their spread drowns what splitting adds."""
_SPLIT = 1e-7
"""Share of the losses' variance that splitting them may add without a finer grid."""
_NO_PROTECTION = 40.0
"""Nats from which on a claim is not worth composing."""
_TRUNCATED = 1e-15
"""Probability that each composition may count as an infinite loss."""
_ROUNDING = 1e-12
"""Taken off delta for float64 rounding, at least."""
_ROUNDING_EACH = 6e-16
"""Taken off delta for each release: 20 times the largest error found of any composition."""


@lru_cache(maxsize=4096)
def composed_epsilon(costs: tuple[tuple[Cost, int], ...], delta: float) -> float:
    """Epsilon at `delta` of several kinds of releases together; an upper bound.

    Parameters
    ----------
    costs : tuple[tuple[Cost, int], ...]
        Kinds, and how many releases there are of each, >= 1.
    delta : float
        In [0, 1).

    Returns
    -------
    float
        In nats; infinite where nothing is guaranteed at `delta`.
    """
    rounding = max(_ROUNDING, _ROUNDING_EACH * sum(times for _, times in costs))
    usable = delta * (1 - 1e-9) - rounding
    if any(part.lost > usable for cost, _ in costs for part, _ in _parts(cost)) or usable <= 0:
        return math.inf
    costs = tuple(sorted(costs, key=lambda part: part[0].digest))  # one answer for any order
    step = _step(costs)
    several = (_repeated(cost, times, step) for cost, times in costs)
    whole = reduce(lambda a, b: a.compose(b, tail_mass_truncation=_TRUNCATED), several)
    return float(whole.get_epsilon_for_delta(usable))


@lru_cache(maxsize=16)
def _repeated(cost: Cost, times: int, step: float) -> PrivacyLossDistribution:
    """Compose a kind with itself; while one kind leaves a window, the others stay what they are."""
    return _distribution(cost, step).self_compose(times, tail_mass_truncation=_TRUNCATED)


@lru_cache(maxsize=16)
def _distribution(cost: Cost, step: float) -> PrivacyLossDistribution:
    """Put one release of a kind on a grid; coordinates have independent noise and compose."""
    parts = (
        _on_grid(part, step).self_compose(times, tail_mass_truncation=_TRUNCATED)
        for part, times in _parts(cost)
    )
    return reduce(lambda a, b: a.compose(b, tail_mass_truncation=_TRUNCATED), parts)


def _on_grid(part: LossDistribution, step: float) -> PrivacyLossDistribution:
    # Imported here: it takes two seconds, and a budget with room by sums never needs it.
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    p, loss = part.p, part.losses
    below = np.floor(loss / step)
    above = p * np.expm1(below * step - loss) / math.expm1(-step)
    points = np.concatenate([below, below + 1]).astype(np.int64)
    grid, place = np.unique(points, return_inverse=True)
    mass = np.bincount(place, np.concatenate([p - above, above]))
    return PrivacyLossDistribution.create_from_rounded_probability(
        dict(zip(grid.tolist(), mass.tolist(), strict=True)), float(part.lost), step
    )


def _step(costs: tuple[tuple[Cost, int], ...]) -> float:
    """Choose the grid: any is an upper bound, and this one is close and quick.

    The smallest loss of the most frequent kind, where all losses are multiples of it, as those of
    one kind of Laplace, Gaussian or bare releases are: none is split, and few points do. Otherwise
    a whole fraction of it, fine enough for the spread of all losses (one release's range, or ten
    deviations to each side).
    """
    widest, variance, unit = 0.0, 0.0, 0.0
    most = max(times for _, times in costs)
    for cost, times in costs:
        parts = _parts(cost)
        widest = max(widest, sum(n * float(np.ptp(part.losses)) for part, n in parts))
        variance += times * sum(n * part.mean_square for part, n in parts)
        if times == most:
            sizes = np.abs(np.concatenate([part.losses for part, _ in parts]))
            unit = float(sizes[sizes > 1e-9 * sizes.max()].min())
    split = 0.0
    for cost, times in costs:
        for part, n in _parts(cost):
            beside = part.losses / unit - np.floor(part.losses / unit)
            split += times * n * unit**2 * float((part.p * beside * (1 - beside)).sum())
    if split <= _SPLIT * variance:
        return unit
    width = max(widest, 20 * math.sqrt(variance))
    points = _POINTS if sum(times for _, times in costs) < _MANY else _POINTS // 16
    step = _STEP * 2.0 ** max(0, math.ceil(math.log2(width / _STEP / points)))
    return unit / math.ceil(unit / step)


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
