"""Kaplan–Meier curves and the log-rank test from noised counts of times and events.

Times are counted in bins, those with the event and those without (censored), so one release tells
all curves. Counts that noise made negative are 0, and all add up to the number of records. What
noise and sampling do to a curve is found by drawing from what was read. A band is of counts that
may be negative: noise in bins without events, once made non-negative, would be events. It holds
for all times at once, and it and the test hold whatever comes first within bins, events or
censoring: times are often whole months. Post-processing: it costs no privacy.

Numbers that were tuned, and how many of 200 bands of 500 or 1,000 patients hold of these, and of
the population, if they are halved, and doubled: 197 and 199 as they are, .119 wide on average
(``survival.py``).

======  ==========  ================================================================================
number  unit        meaning, and what a half or twice as much does
======  ==========  ================================================================================
_DRAWS  draws       of what noise and sampling do to a curve: no change
_LEVEL  confidence  a little more than is promised, as draws are around what was read, and not
                    around the truth; half and twice what is left out: 200, 200, .133 wide / 192,
                    195, .105
_CLEAR  deviations  of its noise that a number at risk exceeds for a hazard to be read of it: no
                    change / .138 wide
======  ==========  ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.infer.fraction_interval import Floats

_DRAWS = 1000
_LEVEL = 0.96
_CLEAR = 3.0


@dataclass(frozen=True)
class SurvivalCurve:
    """One group's survival. Everything in it is public. Times are the ends of bins."""

    group: str  # Empty where there are no groups
    survival: tuple[float, ...]  # Fraction that has not had the event by the end of each bin
    low: tuple[float, ...]  # 95 % band: the curve lies in it at all times at once
    high: tuple[float, ...]
    at_risk: tuple[float, ...]  # Records at the beginning of each bin, estimate

    def medians(self, times: tuple[float, ...]) -> tuple[float | None, float | None, float | None]:
        """Return the end of the first bin by which half had the event, and its 95 % limits.

        None where fewer had by the last of the times. The last bin has no end.
        """
        ends = [
            next((time for time, left in zip(times, of, strict=False) if left <= 0.5), None)
            for of in (self.survival, self.low, self.high)
        ]
        return ends[0], ends[1], ends[2]


def kaplan_meier(events: Floats, censored: Floats, counted: float = 0.5) -> Floats:
    """Survival after each bin: Kaplan and Meier (1958)."""
    # Of those censored in a bin, so large a part is at risk when the others have the event: half if
    # both fall evenly in it (Cutler and Ederer 1958). Shapes: [..., bins] each.
    at_risk = _at_risk(events, censored, counted)
    hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0)
    return np.asarray(np.cumprod(1 - hazard.clip(-1, 1), axis=-1))


def curves(
    counts: Floats,
    names: Sequence[str],
    *,
    noise: float,
    records: tuple[float, float],
    design_effect: float,
    summed: tuple[int, int] = (1, 1),
) -> tuple[list[SurvivalCurve], float | None]:
    """Read a curve for each group, and the p-value of the log-rank test that they are one."""
    # `counts` are noised, shape [groups, 2, bins]: with the event, then censored. All are between
    # two numbers of `records`.
    # `noise` is the standard deviation in each of the counts that are `summed` to one with the
    # event, and to one censored; `design_effect` 0 for these very records. The p-value is None for
    # one group.
    consistent, random = _summing_to(records, counts), np.random.default_rng(0)
    read, total = _as_records(consistent), float(consistent.sum())
    noise_alone = _noise(random, noise * np.sqrt(summed)[:, None], (_DRAWS, *read.shape))
    drawn = consistent + noise_alone
    if design_effect:  # so many records that are alike tell as much as one
        effective = max(round(total / design_effect), 1)
        alike = random.multinomial(effective, read.ravel() / read.sum(), _DRAWS)
        drawn += alike.reshape(noise_alone.shape) * (total / effective) - read
    drawn = _summing_to(records, drawn)
    found = kaplan_meier(read[:, 0], read[:, 1])
    low, high = (
        np.where(
            _above_noise(_at_risk(counts[:, 0], counts[:, 1], counted), noise, cells=sum(summed)),
            way * np.maximum(way * found, way * _limit(consistent, drawn, counted, way)),
            otherwise,
        )
        for counted, way, otherwise in ((0.0, -1, 0.0), (1.0, 1, 1.0))
    )
    # A curve falls: what limits it at one time does so later, or before.
    low = np.maximum.accumulate(np.maximum(low, 0.0)[:, ::-1], axis=1)[:, ::-1]
    high = np.minimum.accumulate(np.minimum(high, 1.0), axis=1)
    at_risk = _at_risk(read[:, 0], read[:, 1])
    of_groups = [
        SurvivalCurve(name, *(tuple(x[i].tolist()) for x in (found, low, high, at_risk)))
        for i, name in enumerate(names)
    ]
    return of_groups, _log_rank(counts, noise_alone, noise, design_effect, sum(summed))


def _noise(random: np.random.Generator, deviation: Floats, shape: tuple[int, ...]) -> Floats:
    """Draw noise whose tails are no thinner than those of any that is released."""
    return random.laplace(0, deviation / math.sqrt(2), shape)


def _summing_to(records: tuple[float, float], counts: Floats) -> Floats:
    """Return the nearest counts, shape [..., groups, 2, bins], with a sum that there may be."""
    total = counts.sum(axis=(-3, -2, -1), keepdims=True)
    cells = math.prod(counts.shape[-3:])
    return np.asarray(counts + (total.clip(*records) - total) / cells)


def _as_records(counts: Floats) -> Floats:
    """Return the nearest counts that are not negative, with the same sum."""
    # Each less one number, or 0 (Held, Wolfe and Crowder 1974).
    falling = -np.sort(-counts, axis=None)
    less = (np.cumsum(falling) - counts.sum()) / np.arange(1, counts.size + 1)
    return np.asarray(np.maximum(counts - less[np.count_nonzero(falling > less) - 1], 0))


def _at_risk(events: Floats, censored: Floats, counted: float = 1.0) -> Floats:
    """Count records whose time is in a bin or later, [..., bins]; `counted` of those censored."""
    left = events + censored
    later = np.cumsum(left[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(later - (1 - counted) * censored)


def _above_noise(at_risk: Floats, noise: float, *, cells: int) -> NDArray[np.bool_]:
    """Whether the number at risk stands out of the noise of so many cells a bin, up to each bin."""
    deviation = noise * np.sqrt(cells * np.arange(at_risk.shape[-1], 0, -1))
    return np.asarray(np.logical_and.accumulate(at_risk > _CLEAR * deviation, axis=-1))


def _limit(counts: Floats, drawn: Floats, counted: float, way: int) -> Floats:
    """Limit each curve, shape [groups, bins], at all times at once, from below (-1) or above."""
    # Drawn with the same part at risk of those censored: where nobody of them is, few may be left.
    found, around = (kaplan_meier(x[..., 0, :], x[..., 1, :], counted) for x in (counts, drawn))
    middle = around.mean(axis=0)
    spread = np.maximum(around.std(axis=0), 1e-9)
    farthest = (np.abs(around - middle) / spread).max(axis=2)
    reach = np.quantile(farthest, _LEVEL, axis=0)[:, None] * spread + np.abs(middle - found)
    return np.asarray(found + way * reach)


def _observed_less_expected(
    counts: Floats, bins: int, counted: float = 0.5, least: float | Floats = 1.0
) -> Floats:
    """Events of each group but the last, less those expected if all had one hazard, [..., G-1]."""
    # Shape of counts: [..., groups, 2, all bins], of which so many are read; `counted` as in
    # `kaplan_meier`; at least so many are taken to be at risk, so that no draw of noise divides by
    # nearly nothing.
    events, censored = counts[..., 0, :], counts[..., 1, :]
    at_risk = _at_risk(events, censored, counted)[..., :bins]
    total = np.maximum(at_risk.sum(axis=-2, keepdims=True), least)
    share = at_risk / total
    events = events[..., :bins]
    expected = share * events.sum(axis=-2, keepdims=True)
    return np.asarray((events - expected).sum(axis=-1)[..., :-1])


def _log_rank(
    counts: Floats, drawn: Floats, noise: float, design_effect: float, cells: int
) -> float | None:
    """P-value of the log-rank test (Mantel 1966), with the noise in its variance."""
    # Shapes: counts [groups, 2, bins], as noised: made non-negative, those of small groups would be
    # too large; drawn [draws, groups, 2, bins], noise alone.
    groups = len(counts)
    if groups < 2:
        return None
    in_all = _at_risk(*counts.sum(axis=0))
    bins = int(_above_noise(in_all, noise, cells=cells * groups).sum())
    if not bins:
        return 1.0
    statistic = _observed_less_expected(counts, bins)
    # By chance, if all have one hazard: hypergeometric, bin by bin.
    at_risk = _at_risk(counts[:, 0], counts[:, 1])[:, :bins].clip(0)
    n, d = at_risk.sum(axis=0), counts[:, 0, :bins].sum(axis=0).clip(0)
    share = at_risk / n
    spread = d * np.maximum(n - d, 0) / np.maximum(n - 1, 1)
    by_chance = np.diag((share * spread).sum(axis=1)) - (share * spread) @ share.T
    by_noise = np.cov(_observed_less_expected(counts + drawn, bins, least=n / 2), rowvar=False)
    covariance = max(design_effect, 1.0) * by_chance[:-1, :-1] + np.atleast_2d(by_noise)
    # The least distance, wherever in their bins those censored lie, in all groups alike.
    root = np.linalg.cholesky(covariance)
    halfway, first = (
        np.linalg.solve(root, one)
        for one in (statistic, _observed_less_expected(counts, bins, 0.0) - statistic)
    )
    moved = float(first @ first)
    nearest = halfway - first * np.clip(first @ halfway / moved if moved else 0.0, -1, 1)
    return float(scipy.special.chdtrc(groups - 1, nearest @ nearest))
