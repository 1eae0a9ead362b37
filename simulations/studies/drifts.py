"""Laws over many symbols, and the ways in which they may drift, by any number of nats."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA, Floats
from flwr_kld.reference import Reference
from flwr_kld.table.labels import Labels

Family = Callable[[float], Floats]
"""From an amount in [0, 1] to a law over the listed symbols and 'other'; 0 is the reference's."""
_STRONGEST = 6.0
"""Of tilts, in nats from one end to the middle."""
_FAR_ENOUGH = 0.25
"""Nats that a law of any shape can reach, at least."""


def zipf(symbols: int, slope: float = 1.0) -> Floats:
    """Π proportional to ``rank^-slope``."""
    law = np.arange(1.0, symbols + 1) ** -slope
    normal: Floats = law / law.sum()
    return normal


def table(columns: int, levels: int) -> Floats:
    """Π of independent columns of so many levels; the last column is the fastest."""
    one = zipf(levels, 0.5)
    joint: Floats = reduce(np.multiply.outer, [one] * columns).reshape(-1)
    return joint


def reference_of(law: Floats) -> Reference:
    """Give each symbol a label; 'other' and 'missing' have no mass."""
    return Reference.from_probabilities(Labels(list(range(len(law)))), law)


def vanishing(pi: Floats, rng: np.random.Generator) -> Family:
    """Let some symbols, which hold a third of Π, become rare and vanish."""
    order = rng.permutation(len(pi))
    gone = np.zeros(len(pi), dtype=bool)
    gone[order] = np.cumsum(pi[order]) <= max(1 / 3, float(pi[order[0]]))
    return lambda amount: _inside(pi * (1 - amount * gone))


def without(pi: Floats, label: int) -> Family:
    """Let one symbol vanish."""
    return lambda amount: _inside(pi * (1 - amount * (np.arange(len(pi)) == label)))


def new_category(pi: Floats, rng: np.random.Generator) -> Family:
    """Let records appear that no label fits."""
    return lambda amount: np.append((1 - amount) * pi, amount)


def rare_category(pi: Floats, rng: np.random.Generator) -> Family:
    """Let one rare symbol take over."""
    one = np.zeros(len(pi))
    one[rng.choice(np.flatnonzero(pi <= np.quantile(pi, 0.25)))] = 1.0
    return lambda amount: _inside((1 - amount) * pi + amount * one)


def tilted(pi: Floats, rng: np.random.Generator) -> Family:
    """Make symbols at one end of the order rarer, those at the other more frequent."""
    return _exponential(pi, np.linspace(-1, 1, len(pi)))


def alternating(pi: Floats, rng: np.random.Generator) -> Family:
    """Make every other symbol rarer: sums of neighbours hardly move."""
    return _exponential(pi, np.where(np.arange(len(pi)) % 2, 1.0, -1.0))


def spread(pi: Floats, rng: np.random.Generator) -> Family:
    """Make each symbol rarer or more frequent by itself, most of them a little."""
    return _exponential(pi, rng.standard_normal(len(pi)) / 2)


def sparse(pi: Floats, rng: np.random.Generator) -> Family:
    """Make few symbols frequent; all others stay as they were among themselves."""
    few = np.zeros(len(pi))
    few[rng.choice(len(pi), max(len(pi) // 100, 1), replace=False)] = 1.0
    few *= pi if (few * pi).sum() > 1e-4 else 1.0
    few /= few.sum()
    return lambda amount: _inside((1 - amount) * pi + amount * few)


def gone(pi: Floats, rng: np.random.Generator) -> Family:
    """Let some symbols vanish one after the other, the others rise."""
    order = rng.permutation(len(pi))
    before = np.cumsum(pi[order]) - pi[order]

    def law(amount: float) -> Floats:
        left = np.empty_like(pi)
        left[order] = 1 - np.clip((amount * 0.7 - before) / pi[order], 0, 1)
        return _inside(pi * left)

    return law


def any_shape(pi: Floats, rng: np.random.Generator) -> Family:
    """Let each symbol's ratio be drawn: vanished or not, frequent or not, a log-normal one."""
    far = np.append(pi, 0.0)
    while skewed_divergence(np.append(pi, 0.0), far, THETA) < _FAR_ENOUGH:
        kept = rng.random(len(pi)) > rng.choice([0.0, 0.1, 0.5])
        kept[rng.integers(len(pi))] = True
        raised = np.where(rng.random(len(pi)) < rng.choice([0.0, 0.02, 0.2]), 20.0, 1.0)
        ratio = kept * raised * np.exp(rng.uniform(0, 4) * rng.standard_normal(len(pi)))
        outside = rng.choice([0.0, 0.7])
        far = np.append((1 - outside) * pi * ratio / (pi @ ratio), outside)
    return lambda amount: (1 - amount) * np.append(pi, 0.0) + amount * far


def one_symbol(pi: Floats, rng: np.random.Generator) -> Family:
    """Let one usual symbol take over."""
    one = np.zeros(len(pi))
    one[rng.integers(len(pi))] = 1.0
    return lambda amount: _inside((1 - amount) * pi + amount * one)


def column(pi: Floats, levels: int, which: int, rng: np.random.Generator) -> Family:
    """Tilt one column alone; 0 is the slowest."""
    columns = round(np.log(len(pi)) / np.log(levels))
    digit = np.arange(len(pi)) // levels ** (columns - 1 - which) % levels
    return _exponential(pi, np.linspace(-1, 1, levels)[digit])


def pair(pi: Floats, levels: int, rng: np.random.Generator) -> Family:
    """Let first and last column agree; each of them alone stays as it was."""
    low, high = np.arange(len(pi)) % levels, np.arange(len(pi)) // (len(pi) // levels)
    margins = np.bincount(low, pi)
    same = np.where(low == high, 1 / margins[low], 0.0)
    return lambda amount: _inside(pi * (1 - amount + amount * same))


def amount_at(family: Family, pi: Floats, nats: float) -> float:
    """Amount of a family at this D_θ."""
    padded = np.append(pi, 0.0)

    def excess(amount: float) -> float:
        return skewed_divergence(padded, family(amount), THETA) - nats

    if nats == 0:
        return 0.0
    if excess(1.0) < 0:
        raise ValueError(f"a drift of {nats:g} nats is out of reach")
    return float(brentq(excess, 0.0, 1.0, xtol=1e-12))


def law_at(family: Family, pi: Floats, nats: float) -> Floats:
    """P of a family at this D_θ, over the listed symbols, 'other' and 'missing'."""
    return np.append(family(amount_at(family, pi, nats)), 0.0)


def _exponential(pi: Floats, direction: Floats) -> Family:
    def law(amount: float) -> Floats:
        exponent = amount * _STRONGEST * direction
        return _inside(pi * np.exp(exponent - exponent.max()))

    return law


def _inside(weight: NDArray[np.float64]) -> Floats:
    """Normalise; nothing is 'other'."""
    return np.append(weight / weight.sum(), 0.0)
