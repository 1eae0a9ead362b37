"""How far the values of a column of numbers moved from its reference: means, quantiles, distance.

Both laws are read as `numbers` says: distribution functions that are linear between edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.numbers import (
    SIDES,
    Figure,
    Numbers,
    Quantile,
    Side,
    edges_read,
    side,
)
from flwr_kld.infer.fraction_interval import Floats

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # Not tuned: those that reports show


@dataclass(frozen=True)
class QuantileFigure(Quantile):
    """One quantile of the clients' values beside the reference's, in the column's unit."""

    reference: float  # The same quantile of the reference
    reference_beyond: Side | None  # Where the reference's lies


@dataclass(frozen=True)
class OrderedFigures:
    """Figures of a column of numbers, in its unit."""

    wasserstein: Figure  # Mean distance that values must move from one law to the other
    mean: Figure  # The clients' mean; of values clamped to the outer edges, if bins have no means
    reference_mean: float  # Mean of the reference
    quantiles: tuple[QuantileFigure, ...]  # One for each of `QUANTILES`


def ordered_figures(
    noisy: NoisyCounts, seen: Floats, effects: DesignEffects
) -> OrderedFigures | None:
    """Estimate them; None if the column has no order, no finite bin, or no values in Π."""
    # Shapes: seen [cells].
    clients = Numbers.from_counts(noisy, seen, effects)
    if clients is None or not noisy.plan.reference.probabilities[:-1].sum() > 0:
        return None
    reference = _of_reference(noisy.plan.reference.probabilities, clients)
    below, levels = reference.below, np.array(QUANTILES)
    of_reference = reference.inverse(levels).tolist()
    beside = zip(clients.quantiles(QUANTILES), of_reference, strict=True)
    return OrderedFigures(
        _wasserstein(clients.below - below, clients),
        clients.mean,
        reference.mean_of(reference.values),
        tuple(
            QuantileFigure(
                q.level,
                q.value,
                q.low,
                q.high,
                q.beyond,
                q.low_beyond,
                q.high_beyond,
                reference=r,
                reference_beyond=side(q.level, reference.below),
            )
            for q, r in beside
        ),
    )


def _of_reference(pi: Floats, clients: Numbers) -> Numbers:
    """Return the reference's law, read at the same edges."""
    # Shapes: pi [bins + 1], 'missing' last.
    below = (np.cumsum(pi[:-2]) / pi[:-1].sum())[edges_read(len(pi) - 2)]
    return replace(clients, below=below)


def _wasserstein(apart: Floats, clients: Numbers) -> Figure:
    """``∫ |F - F_Π|``, from the difference of both at the edges and its covariance."""
    # Noise adds ``∫ Var`` to the expectation of ``∫ (F - F_Π)²``, so the difference is shrunk by
    # what takes this off again (James and Stein 1961).
    (variance, together), width = clients.covariance, np.diff(clients.edges)
    a, b = apart[:-1], apart[1:]
    square = float(width @ (a**2 + a * b + b**2))
    noise = float(width @ (variance[:-1] + together + variance[1:]))
    kept = _kept(square, noise)
    # The area under a line from |a| to |b|, or under the two triangles where it crosses 0.
    whole = np.abs(a) + np.abs(b)
    crossed = (a**2 + b**2) / np.where(whole > 0, whole, 1)
    most = float(width @ np.where(a * b >= 0, whole, crossed)) / 2
    slope = np.append(_around(width) * np.sign(apart), 0.0)
    deviation = clients.error_of(np.cumsum(slope[::-1])[::-1])
    reach = SIDES * deviation
    # What was taken off for noise may be too much, or too little: clients may differ most in what
    # is summed here.
    doubted = _kept(square, noise * clients.largest_over_average)
    low, high = max(doubted * most - reach, 0.0), min(most + reach, float(width.sum()))
    return Figure(kept * most, deviation, low, high)


def _kept(square: float, noise: float) -> float:
    """Return which part of a distance is left without the noise in its square."""
    return math.sqrt(max(1 - noise / square, 0.0)) if square > 0 else 0.0


def _around(width: Floats) -> Floats:
    """Return half of the bins on both sides of each edge: the weights of an integral over F."""
    weights = np.zeros(len(width) + 1)
    weights[:-1] = width / 2
    weights[1:] += width / 2
    return weights
