"""Fractions of the records that are in groups of symbols, each with limits of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.design_effect import worst_effects
from flwr_kld.inference.figures.cell_fractions import as_law, in_cells
from flwr_kld.inference.fraction_interval import Floats, group_intervals, weighted_variance
from flwr_kld.query.noisy import NoisyCounts

_LEVEL = 0.95
_ROUNDING = 1e-9


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
    *,
    design_effect: float,
    most_alike: float | None = None,
) -> tuple[Fraction, ...]:
    """Estimate the fractions of groups of symbols, [groups, symbols], with 95 % limits.

    With `most_alike`, they hold however records of a client are alike in a group.
    """
    # Shapes: seen [cells].
    if not names:
        return ()
    weights = in_cells(noisy.plan, symbols)
    touched, whole = weights > 0, weights > 1 - _ROUNDING
    law = as_law(seen, noisy.plan.mass)
    effect = effects_of(weights, law, design_effect, most_alike)
    low, high = group_intervals(noisy, whole, level=_LEVEL, design_effect=effect)
    if (touched != whole).any():  # cells that hold other symbols, too, limit from above only
        _, high = group_intervals(noisy, touched, level=_LEVEL, design_effect=effect)
    value = np.clip(weights @ seen, low, high)
    variance = weighted_variance(noisy, weights, law, design_effect=effect)
    numbers = np.array([value, np.sqrt(np.maximum(variance, 0)), low, high])
    return tuple(
        Fraction(name, *of_name) for name, of_name in zip(names, numbers.T.tolist(), strict=True)
    )


def effects_of(
    weights: Floats | None, law: Floats, design_effect: float, most_alike: float | None
) -> float | Floats:
    """Return the design effect of each group of cells, or of each cell, at most; shape [groups]."""
    if most_alike is None:
        return design_effect
    squares = law**2
    part, own = (law, squares) if weights is None else (weights @ law, weights**2 @ squares)
    length = (1 - part) ** 2 * own + part**2 * (squares.sum() - own)
    return worst_effects(part * (1 - part), length, law, average=design_effect, most=most_alike)
