"""Allowance for the sampling error of a reference that was counted, at both ends of a verdict.

A reference of R public rows is a sample Π̂ of a law Π, and a verdict is about Π. Clients that follow
Π exactly differ from Π̂ by about (symbols seen) / (2 R) nats, and hold symbols that Π̂ has never
seen. Proof note: ``docs/proofs/decisions.md``.

Numbers that were chosen. Rows needed of 20 and 200 symbols for a threshold of .05: 2,100 and 5,100.

=======  ==========  ===============================================================================
number   unit        meaning, and what a half or twice as much does
=======  ==========  ===============================================================================
SHARE    part        of each error probability, for a reference that is a sample: 2,300 and 5,400 /
                     1,900 and 4,800
CLEAR    deviations  of noise beyond which a count is not made by it alone. Of 50 symbols, 5,000
                     records and noise of 10, `chance` is .51 nats; .11 / 4.6, which is no bound.
                     All hold in 100 of 100, but 3 lets 1 % of discrete Laplace noise pass
=======  ==========  ===============================================================================

`_FEWEST`, `_MOST` and `_CLOSE` end a search, whose result is rounded up to two digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from flwr_kld.common.search import edge
from flwr_kld.infer.estimators.score import THETA, Floats, check_level, check_theta
from flwr_kld.reference import Reference

SHARE = 0.1
CLEAR = 6.0
_FEWEST, _MOST = 10.0, 1e12
_CLOSE = 0.02


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


def allowance(reference: Reference, *, theta: float = THETA, level: float) -> Allowance:
    """Bound a column's reference's sampling error; all zero for a law that is known exactly."""
    theta, level = check_theta(theta), check_level(level)
    if reference.records is None:
        return Allowance(0.0, 0.0, 0.0)
    return _of_rows(reference, reference.records, theta, level)


def _of_rows(reference: Reference, rows: float, theta: float, level: float) -> Allowance:
    """Bound the sampling error that a reference would have if it were of so many rows."""
    part = (1 - level) / 3  # for the shape of what was seen, for what was not, and for a drift
    z = -float(scipy.special.ndtri(part))
    most = -math.log(max(theta, (rows + 1) ** -2))  # at θ = 0, of symbols that the rows could show
    counts = rows * reference.probabilities
    unseen = _unseen(reference, rows, counts, z)
    seen = counts[counts > 0]
    noise = np.minimum(reference.noise**2 / seen, 2 * most * seen)  # of one with mean 1, in mean
    spread = float((1 + noise).sum()) - 1
    if not reference.noise:  # which hides what a single record has
        spread += float(np.count_nonzero(np.rint(counts) == 1))
    scale = float((2 + 4 * noise + 5 * noise**2).sum() / (2 * (1 + noise).sum()))
    if seen.min() < CLEAR * reference.noise:  # noise may have made all of it
        scale = max(scale, most * reference.noise / math.sqrt(2))
    chance = scale * float(scipy.special.gammainccinv(max(spread, 1.0) / (2 * scale), part)) / rows
    chance = min(chance - (math.log1p(-unseen) if unseen < 1 else -math.inf), most)
    return Allowance(chance, unseen, z**2 * _steepest(most) / rows)


def rows_needed(
    reference: Reference, threshold: float, resolution: float, *, theta: float = THETA, level: float
) -> int | None:
    """Return about how many records resolve a threshold to within half the resolution.

    None for a law that is known exactly; of more records, no symbol would be unseen.
    """
    if reference.records is None:
        return None
    theta, level = check_theta(theta), check_level(1 - SHARE * (1 - level))

    def enough(records: float) -> bool:
        found = _of_rows(reference, records, theta, level)
        return found.above(threshold) - threshold <= resolution / 2

    own = reference.records
    if enough(own):
        fewest = min(_FEWEST, own)
        found = fewest if enough(fewest) else edge(enough, own, fewest, within=_CLOSE)
        return min(_rounded(found), math.floor(own))
    return max(_rounded(edge(enough, _MOST, own, within=_CLOSE)), math.floor(own) + 1)


def _rounded(rows: float) -> int:
    """Round up to two digits."""
    unit = 10.0 ** max(math.floor(math.log10(rows)) - 1, 0)
    return int(math.ceil(rows / unit) * unit)


def _unseen(reference: Reference, rows: float, counts: Floats, z: float) -> float:
    """Bound the mass of what was never seen, by what was seen once and twice (Good, Turing)."""
    if counts.all():
        return 0.0
    noise = reference.noise
    if noise:  # what is not told from it, of each listed symbol, and of each name in `unlisted`
        index = reference.domain.unlisted_index()[counts == 0]
        hidden = np.count_nonzero(index < 0) + len(set(index[index >= 0].tolist()))
        return min(CLEAR * noise * hidden / rows, 1.0)
    once, twice = (float(np.count_nonzero(np.rint(counts) == k)) for k in (1, 2))
    above = z * z / 2 + z * math.sqrt(once + 2 * twice + z * z / 4)
    return min((once + above) / rows, 1.0)


def _steepest(most: float) -> float:
    """Return the largest ``x² / (x + e^-x - 1)`` for x up to `most`: Var ln(Π/M) by KL(Π ‖ M)."""
    return most**2 / (most + math.expm1(-most))
