"""What a reference that was counted cannot tell: the allowance that both ends of a verdict carry.

A reference of R public rows is a sample Π̂ of a law Π, and a verdict is about Π. Clients that follow
Π exactly differ from Π̂ by about (symbols seen) / (2 R) nats, and hold symbols that Π̂ has never
seen. Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammainccinv, ndtri

from flwr_kld.inference.estimators.score import Floats, check_level, check_theta
from flwr_kld.reference import Reference

_FACTORS = tuple(round(10 ** (k / 10), 2) for k in range(61))
"""Of rows that are proposed."""


@dataclass(frozen=True)
class Allowance:
    """By how much D_θ(Π̂ ‖ P) and D_θ(Π ‖ P) may differ, with one confidence for all P at once."""

    chance: float  # D_θ(Π̂ ‖ Π) is at most this, in nats
    unseen: float  # Mass of Π where Π̂ has none, at most
    by_drift: float  # Variance of the difference for each nat of D_θ(Π ‖ P), times a quantile²

    def above(self, divergence: float) -> float:
        """Return the most that D_θ(Π̂ ‖ P) can be if D_θ(Π ‖ P) is this many nats."""
        return divergence + self.chance + math.sqrt(self.by_drift * max(divergence, 0.0))

    def below(self, divergence: float) -> float:
        """Return the least that D_θ(Π ‖ P) can be if D_θ(Π̂ ‖ P) is at least this many nats."""
        left = divergence - self.chance
        if left <= 0 or not self.by_drift:
            return left
        return (math.sqrt(left + self.by_drift / 4) - math.sqrt(self.by_drift) / 2) ** 2

    def at_most(self, divergence: float) -> float:
        """Return the most that D_θ(Π ‖ P) can be if D_θ(Π̂ ‖ P) is at most this many nats."""
        if not self.by_drift:
            return divergence
        half = math.sqrt(self.by_drift) / 2
        return (half + math.sqrt(half**2 + max(divergence, 0.0))) ** 2


def allowance(reference: Reference, *, theta: float, level: float) -> Allowance:
    """Bound what a column's reference cannot tell; all zero for a law that is known exactly."""
    theta, level = check_theta(theta), check_level(level)
    rows = reference.records
    if rows is None:
        return Allowance(0.0, 0.0, 0.0)
    part = (1 - level) / 3  # for the shape of what was seen, for what was not, and for a drift
    z = -float(ndtri(part))
    most = -math.log(max(theta, (rows + 1) ** -2))  # at θ = 0, of symbols that the rows could show
    counts = rows * reference.probabilities
    unseen = _unseen(counts, reference.noise, rows, z)
    seen = counts[counts > 0]
    terms = 1 + np.minimum(reference.noise**2 / seen, 2 * most * seen)
    spread = float(terms.sum()) - 1 + _singletons(counts, reference.noise)
    scale = float((terms**2).sum() / terms.sum())
    chance = scale * float(gammainccinv(max(spread, 1.0) / (2 * scale), part)) / rows
    chance = min(chance - (math.log1p(-unseen) if unseen < 1 else -math.inf), most)
    return Allowance(chance, unseen, z**2 * _steepest(most) / rows)


def rows_needed(
    reference: Reference, threshold: float, resolution: float, *, theta: float, level: float
) -> int | None:
    """Return about how many rows tell a threshold to within half the resolution; None if these do.

    As if more rows had the same law, and left no symbol unseen.
    """
    if reference.records is None:
        return None
    rows = reference.records
    for factor in _FACTORS:
        more = replace(reference, records=rows * factor)
        found = allowance(more, theta=theta, level=level)
        if found.above(threshold) - threshold <= resolution / 2:
            return None if factor == 1 else _rounded(rows * factor)
    return _rounded(rows * _FACTORS[-1])


def _rounded(rows: float) -> int:
    """Round up to two digits."""
    unit = 10.0 ** max(math.floor(math.log10(rows)) - 1, 0)
    return int(math.ceil(rows / unit) * unit)


def _singletons(counts: Floats, noise: float) -> float:
    """Count the symbols that a single record has; noise hides which."""
    return 0.0 if noise else float(np.count_nonzero(np.rint(counts) == 1))


def _unseen(counts: Floats, noise: float, rows: float, z: float) -> float:
    """Bound the mass of what was never seen, by what was seen once and twice (Good, Turing)."""
    if counts.all():
        return 0.0
    if noise:  # what is not told from it
        return min(noise * float(np.count_nonzero(counts == 0)) / rows, 1.0)
    once, twice = (float(np.count_nonzero(np.rint(counts) == k)) for k in (1, 2))
    above = z * z / 2 + z * math.sqrt(once + 2 * twice + z * z / 4)
    return min((once + above) / rows, 1.0)


def _steepest(most: float) -> float:
    """Return the largest ``x² / (x + e^-x - 1)`` for x up to `most`: Var ln(Π/M) by KL(Π ‖ M)."""
    return most**2 / (most + math.expm1(-most))
