"""Figures of a column of numbers that were counted in bins: where they lie, and how far they moved.

Records without a value are left out. A record's value counts as clamped to the outer edges, and
those of a bin lie evenly in it. So both laws are distribution functions F that are linear between
edges; F at the edges is a ratio of sums of counts, with a covariance, and all else follows from it.
Where the domain tells the mean of a bin, the mean takes that; and the interval of a quantile ends
at edges, as it holds however values lie between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.domain.binned import Binned
from flwr_kld.inference.figures.cell_fractions import as_law, in_cells
from flwr_kld.inference.fraction_interval import Floats, fraction_covariance
from flwr_kld.query.noisy import NoisyCounts

_SIDES = 1.96
"""Standard deviations of a 95 % interval."""
_MOST = 200
"""Edges at which F is read, of columns that have more."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Figure:
    """A number with its error, by sampling and noise."""

    value: float  # Estimate and standard deviation
    deviation: float
    low: float  # Approximate 95 % interval
    high: float


@dataclass(frozen=True)
class QuantileFigure:
    """One quantile of the clients' values beside the reference's, in the column's unit."""

    level: float  # In (0, 1), such as .5 for the median
    # Estimate, clamped to the outer edges, and 95 % interval (Woodruff 1952), widened to edges
    value: float
    low: float
    high: float
    # ``"below"`` the first edge, ``"above"`` the last one, if the quantile lies there
    beyond: str | None
    reference: float  # The same quantile of the reference
    reference_beyond: str | None  # Where the reference's lies


@dataclass(frozen=True)
class OrderedFigures:
    """Figures of a column of numbers, in its unit."""

    wasserstein: Figure  # Mean distance that values must move from one law to the other
    mean: Figure  # The clients' mean; of values clamped to the outer edges, if bins have no means
    reference_mean: float  # Mean of the reference
    quantiles: tuple[QuantileFigure, ...]  # One for each of `QUANTILES`


def ordered_figures(
    noisy: NoisyCounts, seen: Floats, *, design_effect: float
) -> OrderedFigures | None:
    """Estimate them; None if the column has no order, no finite bin, or no values in Π."""
    # Shapes: seen [cells].
    domain, pi = noisy.plan.reference.domain, noisy.plan.reference.probabilities
    if not isinstance(domain, Binned) or len(domain.edges) < 2 or not pi[:-1].sum() > 0:
        return None
    last = len(domain.edges) - 1
    at = np.linspace(0, last, min(last + 1, _MOST)).round().astype(int)
    edges = np.array(domain.edges)[at]
    reference = (np.cumsum(pi[:-2]) / pi[:-1].sum())[at]
    # Symbols below each edge, and those that are values.
    groups = np.arange(domain.size) <= np.append(at, last + 1)[:, None]
    *rows, having = in_cells(noisy.plan, groups)
    below = np.array(rows)
    present = max(float(having @ seen), 1 / noisy.records)
    clients = np.clip(below @ seen / present, 0, 1)
    law = as_law(seen, noisy.plan.mass)
    # A ratio moves like its numerator less itself times its denominator.
    influence = (below - clients[:, None] * having) / present
    covariance = fraction_covariance(noisy, influence, law, design_effect=design_effect)

    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    width = np.diff(edges)
    # One value a bin, all records of which have it.
    values = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    if domain.means is not None and len(at) == len(domain.edges):
        values = np.array(domain.means)
    steps = np.diff(values)
    mean = values[-1] - steps @ clients
    error = math.sqrt(max(float(steps @ covariance @ steps), 0))
    ends = np.clip([mean - _SIDES * error, mean + _SIDES * error], values[0], values[-1])
    return OrderedFigures(
        _wasserstein(clients - reference, covariance, width),
        Figure(float(mean), error, *ends.tolist()),
        float(values[-1] - steps @ reference),
        _quantiles(edges, clients, deviation, reference),
    )


def _wasserstein(apart: Floats, covariance: Floats, width: Floats) -> Figure:
    """``∫ |F - F_Π|``, from the difference of both at the edges and its covariance."""
    # Noise adds ``∫ Var`` to the expectation of ``∫ (F - F_Π)²``, so the difference is shrunk by
    # what takes this off again (James and Stein 1961).
    a, b = apart[:-1], apart[1:]
    variance, together = np.diag(covariance), np.diag(covariance, 1)
    square = width @ (a**2 + a * b + b**2)
    noise = width @ (variance[:-1] + together + variance[1:])
    kept = math.sqrt(max(1 - float(noise / square), 0)) if square > 0 else 0.0
    # The area under a line from |a| to |b|, or under the two triangles where it crosses 0.
    whole = np.abs(a) + np.abs(b)
    crossed = (a**2 + b**2) / np.where(whole > 0, whole, 1)
    value = kept * float(width @ np.where(a * b >= 0, whole, crossed)) / 2
    slope = _around(width) * np.sign(apart)
    deviation = math.sqrt(max(float(slope @ covariance @ slope), 0))
    reach = _SIDES * deviation
    return Figure(value, deviation, max(value - reach, 0.0), value + reach)


def _around(width: Floats) -> Floats:
    """Return half of the bins on both sides of each edge: the weights of an integral over F."""
    weights = np.zeros(len(width) + 1)
    weights[:-1] = width / 2
    weights[1:] += width / 2
    return weights


def _quantiles(
    edges: Floats, clients: Floats, deviation: Floats, reference: Floats
) -> tuple[QuantileFigure, ...]:
    """Invert both distribution functions, and the rising ends of the band around the clients'."""
    # Half of the way between the two that rise: noise makes the sums of small counts fall.
    up, down = np.maximum.accumulate(clients), np.minimum.accumulate(clients[::-1])[::-1]
    rising = (up + down) / 2
    above = np.maximum.accumulate(rising + _SIDES * deviation)
    below = np.minimum.accumulate((rising - _SIDES * deviation)[::-1])[::-1]
    low, value, high, of_reference = (
        _inverse(f, edges, np.array(QUANTILES)) for f in (above, rising, below, reference)
    )
    low = edges[np.searchsorted(edges, np.minimum(low, value), side="right") - 1]
    high = edges[np.searchsorted(edges, np.maximum(high, value))]
    return tuple(
        QuantileFigure(q, v, least, most, _side(q, rising), r, _side(q, reference))
        for q, v, least, most, r in zip(
            QUANTILES, *(x.tolist() for x in (value, low, high, of_reference)), strict=True
        )
    )


def _inverse(f: Floats, edges: Floats, levels: Floats) -> Floats:
    """Return where a function that rises along the edges reaches each level first."""
    after = np.searchsorted(f, levels).clip(1, len(f) - 1)
    start, end = f[after - 1], f[after]
    part = np.divide(levels - start, end - start, out=np.ones(len(levels)), where=end > start)
    part = part.clip(0, 1)
    return np.maximum.accumulate((1 - part) * edges[after - 1] + part * edges[after])


def _side(level: float, f: Floats) -> str | None:
    """Say in which open bin a quantile lies, if in one."""
    if level < f[0]:
        return "below"
    return "above" if level > f[-1] else None
