"""The two-sided interval of D_θ over the plan's cells, and when there is none to be had.

Counts far above the noise give D_θ itself, by the delta method. Where a cell's smallest possible
share of the mixture, ``θ Π``, drowns in noise or in few records, no honest interval is known:
then there is a refusal that says what is short.
Proof note: ``docs/proofs/interval.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from flwr_kld.inference.estimators.score import check_theta, score, score_slope
from flwr_kld.inference.witness import check_level

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts
    from flwr_kld.inference.lower_bound import LowerBound

_DEVIATIONS, _RECORDS = 3.0, 3.0
"""Noise deviations, and records, that θ N Π must reach in each cell."""
_MANY = 1e9
"""Degrees of freedom from which on Student's law is the normal one."""


@dataclass(frozen=True)
class Interval:
    """D_θ over the plan's cells lies within, with probability `level`.

    Parameters
    ----------
    lower, upper : float
        In nats, within ``[0, ln(1/θ)]``.
    level : float
        Two-sided confidence.
    """

    lower: float
    upper: float
    level: float


@dataclass(frozen=True)
class NoInterval:
    """Why there is no honest interval.

    Parameters
    ----------
    reason : str
        What is short, by how much, and what would help.
    """

    reason: str


def two_sided_interval(
    counts: NoisyCounts, bound: LowerBound, *, theta: float, level: float = 0.95
) -> Interval | NoInterval:
    """Limit D_θ of the population over the plan's cells from both sides, or say why not.

    The plug-in of noisy counts errs by their variance twice: as a spread, and as a bias upwards,
    because the logarithm is concave. How much the cohort's counts vary is known up to the design
    effect, so the bias is taken out in full for the lower end and as if records were independent
    for the upper end.

    Parameters
    ----------
    counts : NoisyCounts
        Of the first half.
    bound : LowerBound
        Of the second half: its groups tell how far cohorts of these clients differ, which counts of
        the first half cannot.
    theta : float
        In [0, 1).
    level : float
        Two-sided confidence, in [0.5, 1).

    Raises
    ------
    ValueError
        If theta or level is out of range.
    """
    theta, level = check_theta(theta), check_level(level)
    if theta == 0:
        return NoInterval("at theta=0 one unseen symbol makes D infinite: use theta=0.01")
    possible = counts.plan.mass > 0
    p, records = counts.plan.mass[possible], counts.records
    y, expected, noise = counts.values[possible], records * p, counts.noise.variance
    short = _shortfall(theta * float(expected.min()), math.sqrt(noise), len(p))
    if short:
        return NoInterval(short)
    ratio = np.maximum(y / expected, -theta / (2 * (1 - theta)))  # the mixture is at least θ / 2
    slope, seen = score_slope(ratio, theta), np.maximum(ratio, 0.0)
    # Var Σ p φ(r) by the delta method, and Σ p φ'' Var(r) / 2 with φ'' = φ'².
    by_noise = noise * float(((p * slope / expected) ** 2).sum())
    of_records = max(float((p * seen) @ slope**2 - ((p * seen) @ slope) ** 2), 0.0) / records
    effect = bound.design_effect.upper
    if bound.independent_error > 0:  # D_θ moves along the witness: that direction counts most
        effect = max(effect, (bound.standard_error / bound.independent_error) ** 2)
    by_cohort = of_records * effect
    noise_bias = noise * float(p @ (slope / expected) ** 2) / 2
    record_bias = float(p @ (slope**2 * seen / expected)) / 2
    variance = by_noise + by_cohort
    # Welch and Satterthwaite: only the cohort's part rests on the groups.
    known = (variance / by_cohort) ** 2 if by_cohort > 0 else _MANY
    degrees = min((bound.groups - 1) * known, _MANY)
    margin = float(stdtrit(degrees, (1 + level) / 2)) * math.sqrt(variance)
    plain = float(p @ score(ratio, theta)) - noise_bias
    lower = plain - effect * record_bias - margin
    upper = plain - record_bias + margin
    ceiling = -math.log(theta)
    return Interval(min(max(lower, 0.0), ceiling), min(max(upper, 0.0), ceiling), level)


def _shortfall(least: float, deviation: float, cells: int) -> str | None:
    """Say what is short if the smallest ``θ N Π``, in records, is below what the method needs."""
    needed = max(_DEVIATIONS * deviation, _RECORDS)
    if least >= needed:
        return None
    factor = needed / least
    ways = [f"{_about(factor)} times the records"]
    if least >= _RECORDS:
        ways.append(f"{_about(factor)} times the epsilon")
    if cells / factor >= 2:
        ways.append(f"at most {math.floor(cells / factor)} cells of equal mass")
    cause = "the noise" if needed > _RECORDS else "the method"
    return (
        f"theta times the records that the reference expects is {least:.2g} in the smallest cell, "
        f"and {cause} asks for {needed:.2g}: it would take {' or '.join(ways)}"
    )


def _about(factor: float) -> str:
    """Two digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(factor)) - 1)
    return f"{math.ceil(factor / step - 1e-9) * step:g}"
