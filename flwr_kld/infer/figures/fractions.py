"""Fractions of the records that are in groups of symbols, each with limits of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.cell_fractions import as_law, in_cells
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.fraction_interval import LEVEL, Floats, group_intervals, weighted_variance


@dataclass(frozen=True)
class Fraction:
    """A fraction of the records."""

    name: str  # In the domain's words: ``"missing"``, ``"other"``, ``"< 82"``
    value: float  # In [0, 1], and its standard deviation
    deviation: float
    low: float  # 95 % limits, whatever it is
    high: float


def fractions(
    noisy: NoisyCounts,
    seen: Floats,
    names: Sequence[str],
    symbols: NDArray[np.bool_],
    effects: DesignEffects,
    *,
    level: float = LEVEL,
) -> tuple[Fraction, ...]:
    """Estimate the fractions of groups of symbols, [groups, symbols], each with limits."""
    # Shapes: seen [cells].
    if not names:
        return ()
    weights = in_cells(noisy.plan, symbols)
    touched, whole = weights > 0, np.abs(weights - 1) < 1e-8
    law = as_law(seen, noisy.plan.mass)
    effect = effects.of_groups(weights, law)
    low, high = group_intervals(noisy, whole, level=level, effects=effects)
    if (touched != whole).any():  # cells that hold other symbols, too, limit from above only
        _, high = group_intervals(noisy, touched, level=level, effects=effects)
    value = np.clip(weights @ seen, low, high)
    variance = weighted_variance(noisy, weights, law, design_effect=effect)
    numbers = np.array([value, np.sqrt(np.maximum(variance, 0)), low, high])
    return tuple(
        Fraction(name, *of_name) for name, of_name in zip(names, numbers.T.tolist(), strict=True)
    )
