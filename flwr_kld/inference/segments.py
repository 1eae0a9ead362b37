"""The divergence of each segment of a table: of each site's records, say, among themselves.

A column "region × age" counts every region's ages. The cells of one region are noisy counts like
any others, of the reference's law of ages in that region: the usual estimator reads them. Its lower
limit needs no half of its own: the laws P that fit the counts are an ellipsoid,

    Σ_c (y_c - N P_c)² / v_c  <=  q,

and the limit is the least that ``Σ Π φ(P / Π) <= D_θ`` can be in it, with
``φ(r) = a (r - 1) - ln(a r + θ) >= 0`` and ``a = 1 - θ``. q is a quantile of that sum at the true
P, whose first three moments are known: sampling, the clustering of clients, and noise. The error is
shared among all segments of all columns (Bonferroni), so that all limits hold at once. A part of it
is for a reference that is a sample, of which a segment has as many rows as its share (`allowance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from flwr_kld.domain.categories import Categories
from flwr_kld.inference.allowance import SHARE, allowance
from flwr_kld.inference.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.score import (
    Floats,
    check_level,
    check_theta,
    score_ceiling,
)
from flwr_kld.inference.upper_limit import upper_limit
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import HEAD, QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.search import root

_FEWEST = 4.0
"""Deviations of its noise that the number of a segment's records must exceed to be read."""
_NAMED = 5
"""Segments that a sentence names."""
_PULLS = (-40.0, 40.0)
"""Logarithms of the multiplier of the ellipsoid, between which it lies."""


@dataclass(frozen=True)
class Segment:
    """One segment in one column; all divergences in nats."""

    name: str  # Of the segment: ``"site 7"``
    # Estimated number that the divergences are about: those that the reference knows
    records: float
    estimate: float  # D_θ of the law that its records were drawn from, and its standard deviation
    deviation: float
    lower: float  # Confidence limits, each at `level` for all segments of all columns at once
    upper: float
    level: float  # One-sided confidence

    def __str__(self) -> str:
        return f"{self.name} (at least {self.lower:.3g} nats)"


def segments(
    noisy: NoisyCounts,
    by: str,
    *,
    theta: float = 0.01,
    level: float = 0.95,
    columns: int = 1,
    effects: DesignEffects = INDEPENDENT,
) -> tuple[Segment, ...]:
    """Read each segment of a column, the one that moved most for certain first."""
    theta, level = check_theta(theta), check_level(level)
    effect = effects.average
    parts = list(counts_by(noisy, by))
    error = (1 - level) / max(columns * len(parts), 1)
    each = 1 - (1 - SHARE) * error
    found = []
    for name, counts in parts:
        if counts.values.sum() > _FEWEST * (counts.plan.cells * counts.noise.variance) ** 0.5:
            told = posterior_ratios(counts, theta=theta, effects=effects)
            allowed = allowance(counts.plan.reference, theta=theta, level=1 - SHARE * error)
            lower = lower_limit(counts, theta=theta, level=each, design_effect=effect)
            upper = upper_limit(counts, theta=theta, level=each, design_effect=effect).value
            found.append(
                Segment(
                    name,
                    counts.records,
                    told.value,
                    told.error.total,
                    max(allowed.below(lower), 0.0),
                    min(allowed.at_most(upper), score_ceiling(theta)),
                    level,
                )
            )
    return tuple(sorted(found, key=lambda one: (-one.lower, -one.estimate)))


def moved_segments(found: Sequence[Segment], threshold: float = 0.0) -> str | None:
    """Say which segments moved by more than a threshold, with the level of `segments`; or None."""
    moved = [one for one in found if one.lower > threshold]
    if not moved:
        return None
    more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
    listed = ", ".join(map(str, moved[:_NAMED])) + more
    confident = f"with confidence {100 * moved[0].level:g} %"
    return f"{confident} above {threshold:g} nats by themselves: {listed}"


def lower_limit(
    noisy: NoisyCounts, *, theta: float, level: float, design_effect: float = 1.0
) -> float:
    """Limit D_θ from below: the least of any law that the counts do not exclude."""
    inside = noisy.plan.mass > 0
    y, p = noisy.values[inside].astype(np.float64), noisy.plan.mass[inside]
    n, a = noisy.records, 1 - theta
    sampling = design_effect * np.maximum(np.maximum(y, n * p), 1.0)
    v = sampling + noisy.noise.variance
    most = _quantile(sampling, design_effect, noisy.noise, level)

    def nearest(log_pull: float) -> Floats:
        """Ratio ``a r + θ`` of each cell that is best for this multiplier of the ellipsoid."""
        pull = 2 * np.exp(log_pull) * n / v
        square, linear = pull * n * p / a, a - pull * (n * p * theta / a + y)
        far = (
            np.abs(linear) + np.sqrt(linear**2 + 4 * square * a)
        ) / 2  # the root that does not cancel
        return np.asarray(np.maximum(np.where(linear > 0, a / far, far / square), theta))

    def excess(log_pull: float) -> float:
        law = p * (nearest(log_pull) - theta) / a
        return float(((y - n * law) ** 2 / v).sum()) - most

    low, high = _PULLS
    if excess(low) <= 0:
        return 0.0
    pull = high if excess(high) >= 0 else root(excess, low, high, within=1e-6)
    u = nearest(pull)
    return max(float(p @ (u - 1 - np.log(u))), 0.0)


def _quantile(sampling: Floats, effect: float, noise: NoiseTable, level: float) -> float:
    """Quantile of the sum of squares over their variances: a Gamma law, shifted (Pearson's III)."""
    # It has the sum's mean, variance and third cumulant. Under normal noise it is nearly χ²; noise
    # of exponential tails makes it longer.
    powers = noise.support.astype(np.float64)[:, None] ** [2, 4, 6]
    second, fourth, sixth = noise.probabilities @ powers
    variance = sampling + second
    m4 = 3 * sampling**2 + effect**2 * sampling + 6 * sampling * second + fourth
    m6 = 15 * (sampling**3 + 3 * sampling**2 * second + sampling * fourth) + sixth
    m4, m6 = m4 / variance**2, m6 / variance**3
    spread, skew = float((m4 - 1).sum()), float((m6 - 3 * m4 + 2).sum())
    scale = skew / (2 * spread)
    shape = spread / scale**2
    return len(sampling) + scale * (float(gammaincinv(shape, level)) - shape)


def counts_by(noisy: NoisyCounts, by: str) -> Iterator[tuple[str, NoisyCounts]]:
    """Yield the counts of each segment that the reference has, in cells of its own."""
    domain, plan = noisy.plan.reference.domain, noisy.plan
    if not isinstance(domain, Categories) or len(domain.domains) != 2 or by not in domain.domains:
        raise ValueError(f"a column has segments if it is of two features, one of them {by!r}")
    own = next(feature for name, feature in domain.domains.items() if name != by)
    axis = list(domain.domains).index(by)
    shape = [feature.size for feature in domain.domains.values()]
    p = np.moveaxis(plan.reference.probabilities.reshape(shape), axis, 0)
    cell_of = np.moveaxis(plan.cell_of.reshape(shape), axis, 0)
    if (plan.symbols_in[cell_of[p > 0]] > 1).any():
        return
    for symbol, (mass, cells) in enumerate(zip(p, cell_of, strict=True)):
        if (mass > 0).any():
            part, whole = float(mass.sum()), plan.reference.records
            reference = replace(
                plan.reference,
                domain=own,
                probabilities=mass / part,
                records=None if whole is None else max(whole * part, 1.0),
            )
            yield domain.domains[by].name_of(symbol), _of(noisy, reference, cells)


def _of(noisy: NoisyCounts, reference: Reference, cells: NDArray[np.int32]) -> NoisyCounts:
    """Return the counts in a segment's own cells, shape [symbols]."""
    possible = reference.probabilities > 0
    listed = int(possible.sum())
    cell_of = np.full(len(cells), listed, dtype=np.int32)
    cell_of[possible] = np.arange(listed)
    values, weight = noisy.values[cells[possible]], reference.probabilities[possible]
    if listed < len(cells):
        values, weight = np.append(values, 0), np.append(weight, 0.0)
    ones, heads = np.ones(len(weight)), np.full(len(weight), HEAD)
    plan = QueryPlan(reference, cell_of, weight, ones, heads, allotment=noisy.plan.allotment)
    records = max(float(values.sum()), 1.0)
    return replace(noisy, values=values, records=records, plan=plan, part=True)
