"""Allowance for the error of a reference that was counted, in verdicts, sentences and shares.

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

`_FEWEST`, `_MOST` and `_CLOSE` end a search, whose result is rounded up to two digits; `_TINY`
keeps a parameter above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.search import edge
from flwr_kld.infer.estimators.score import THETA, Floats, check_level, check_theta
from flwr_kld.reference import Reference

SHARE = 0.1
CLEAR = 6.0
_FEWEST, _MOST = 10.0, 1e12
_CLOSE = 0.02
_TINY = 1e-9


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


def fraction_limits(
    plan: QueryPlan, groups: Floats | None = None, *, level: float
) -> tuple[Floats, Floats]:
    """Limit Π's fractions of groups of cells, [groups, cells], or of each cell, one by one.

    Groups are given before Π̂ is seen; which symbols share a cell is chosen by it. Of a law that is
    known exactly, both limits are its fractions.
    """

    def summed(of_cells: Floats) -> Floats:
        return of_cells if groups is None else groups @ of_cells

    part, rows, noise = summed(plan.mass), plan.reference.records, plan.reference.noise
    if rows is None:
        return part, part
    seen = plan.reference.probabilities > 0
    each = (1 - check_level(level)) / (4 if noise else 2)  # noise and sampling, on either side
    size, hidden = (
        summed(np.bincount(plan.cell_of, x, plan.cells).astype(np.float64)) for x in (seen, ~seen)
    )
    # The law of the noise is not kept. Of a sum of Laplace draws, one draw is the farthest out.
    far = max(-math.log(2 * each) / math.sqrt(2), -float(scipy.special.ndtri(each)))
    # Noise moves a group, and by its fraction all counts together.
    variance = np.maximum(size * (1 - 2 * part) + np.count_nonzero(seen) * part**2, 0.0)
    hidden = np.minimum(hidden, _hidden(plan.reference))
    reach, held = far * noise * np.sqrt(variance), rows * part
    least = np.clip(held - reach, 0, rows)
    most = np.clip(held + reach + CLEAR * noise * hidden, 0, rows)
    low = scipy.special.betaincinv(np.maximum(least, _TINY), rows - least + 1, each)
    high = scipy.special.betaincinv(most + 1, np.maximum(rows - most, _TINY), 1 - each)
    if groups is None:
        shared, apart = plan.symbols_in > 1, share_apart(plan.reference, level=level)
        low, high = np.where(shared, part - apart, low), np.where(shared, part + apart, high)
    return np.minimum(low, part), np.maximum(high, part)


def share_apart(reference: Reference, *, level: float) -> float:
    """Limit the total variation between Π̂ and Π: 0 for a law that is known exactly."""
    rows, noise = reference.records, reference.noise
    if rows is None:
        return 0.0
    p, error = reference.probabilities, 1 - check_level(level)
    z = -float(scipy.special.ndtri(error / 3))
    unseen = _unseen(reference, rows, rows * p, z)
    listed = np.count_nonzero(p)
    mean = float(np.sqrt(p * (1 - p) / rows + (p > 0) * (noise / rows) ** 2).sum()) / 2
    # A row moves it by 1 / R at most (McDiarmid 1989), noise by half of its own l1 norm.
    by_rows = math.sqrt(math.log(3 / error) / (2 * rows))
    by_noise = z * noise / rows * math.sqrt(listed) / 2
    return min(mean + by_rows + by_noise + unseen, 1.0)


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
    if reference.noise:
        return min(CLEAR * reference.noise * _hidden(reference) / rows, 1.0)
    once, twice = (float(np.count_nonzero(np.rint(counts) == k)) for k in (1, 2))
    above = z * z / 2 + z * math.sqrt(once + 2 * twice + z * z / 4)
    return min((once + above) / rows, 1.0)


def _hidden(reference: Reference) -> int:
    """Count what noise may hide: each listed symbol without mass, and each name in `unlisted`."""
    index = reference.domain.unlisted_index()[reference.probabilities == 0]
    return int(np.count_nonzero(index < 0)) + len(set(index[index >= 0].tolist()))


def _steepest(most: float) -> float:
    """Return the largest ``x² / (x + e^-x - 1)`` for x up to `most`: Var ln(Π/M) by KL(Π ‖ M)."""
    return most**2 / (most + math.expm1(-most))
