"""Kaplan–Meier curves and the log-rank test from noised counts of times and events.

Times are counted in bins, those with the event and those without (censored), so one release tells
all curves. Counts that noise made negative are 0, and all add up to the number of records. What
noise and sampling do to a curve is found by drawing from what was read; the band of a curve holds
for all its times at once. Post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from flwr_kld.inference.fraction_interval import Floats

_DRAWS = 1000
_LEVEL = 0.96
"""A little more than is promised: draws are around what was read, and not around the truth."""


@dataclass(frozen=True)
class SurvivalCurve:
    """One group's survival. Everything in it is public. Times are the ends of bins."""

    group: str  # Empty where there are no groups
    survival: tuple[float, ...]  # Fraction that has not had the event by the end of each bin
    low: tuple[float, ...]  # 95 % band: the curve lies in it at all times at once
    high: tuple[float, ...]
    at_risk: tuple[float, ...]  # Records at the beginning of each bin, estimate

    def median(self, times: tuple[float, ...]) -> float | None:
        """Return the end of the first bin by which half had the event; None if fewer had."""
        reached = np.flatnonzero(np.array(self.survival) <= 0.5)
        return times[reached[0]] if len(reached) else None


def kaplan_meier(events: Floats, censored: Floats) -> Floats:
    """Survival after each bin: Kaplan and Meier (1958), where censoring falls evenly in a bin."""
    # Those censored in a bin are at risk in half of it (Cutler and Ederer 1958), so that the curve
    # is that of the times themselves but for what moves within a bin. Shapes: [..., bins] each.
    at_risk = _at_risk(events + censored) - censored / 2
    hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0)
    return np.asarray(np.cumprod(1 - hazard, axis=-1))


def curves(
    counts: Floats,
    names: Sequence[str],
    *,
    noise: float,
    records: float,
    design_effect: float,
) -> tuple[list[SurvivalCurve], float | None]:
    """Read a curve for each group, and the p-value of the log-rank test that they are one."""
    # `counts` are noised, shape [groups, 2, bins]: `records` in all, with the event, then censored.
    # `noise` is the standard deviation in each; `design_effect` 0 for these very records. The
    # p-value is None for one group.
    read, random = _as_records(counts, records), np.random.default_rng(0)
    noise_alone = _noise(random, noise, (_DRAWS, *read.shape))
    drawn = read
    if design_effect:  # so many records that are alike tell as much as one
        effective = max(round(records / design_effect), 1)
        alike = random.multinomial(effective, read.ravel() / read.sum(), _DRAWS)
        drawn = np.asarray(alike.reshape(noise_alone.shape) * (records / effective), np.float64)
    drawn = _as_records(drawn + noise_alone, records)
    found = kaplan_meier(read[:, 0], read[:, 1])
    low, high = _band(found, kaplan_meier(drawn[:, :, 0], drawn[:, :, 1]))
    at_risk = _at_risk(read.sum(axis=1))
    told = [
        SurvivalCurve(name, *(tuple(x[i].tolist()) for x in (found, low, high, at_risk)))
        for i, name in enumerate(names)
    ]
    return told, _log_rank(read, _as_records(read + noise_alone, records), design_effect)


def _noise(random: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
    """Draw noise whose tails are no thinner than those of any that is released."""
    return random.laplace(0, deviation / math.sqrt(2), shape)


def _as_records(counts: Floats, records: float) -> Floats:
    """Make noised counts, shape [..., groups, 2, bins], non-negative with a known sum."""
    # The nearest ones: each less one number, or 0 (Held, Wolfe and Crowder 1974).
    flat = counts.reshape(*counts.shape[:-3], -1)
    falling = -np.sort(-flat, axis=-1)
    less = (np.cumsum(falling, axis=-1) - records) / np.arange(1, flat.shape[-1] + 1)
    last = np.count_nonzero(falling > less, axis=-1)[..., None] - 1
    held = np.maximum(flat - np.take_along_axis(less, last, axis=-1), 0)
    return np.asarray(held.reshape(counts.shape))


def _at_risk(left: Floats) -> Floats:
    """Count records whose time is in a bin or a later one, shape [..., bins]."""
    return np.asarray(np.cumsum(left[..., ::-1], axis=-1)[..., ::-1])


def _band(found: Floats, around: Floats) -> tuple[Floats, Floats]:
    """Return the ends of a band for each group, shape [groups, bins], at all times at once."""
    bias = around.mean(axis=0) - found
    spread = np.maximum(around.std(axis=0), 1e-9)
    farthest = (np.abs(around - around.mean(axis=0)) / spread).max(axis=2)
    reach = np.quantile(farthest, _LEVEL, axis=0)[:, None] * spread + np.abs(bias)
    return np.maximum(found - reach, 0.0), np.minimum(found + reach, 1.0)


def _observed_less_expected(read: Floats) -> Floats:
    """Events of each group but the last, less those expected if all had one hazard, [..., G-1]."""
    events, at_risk = read[..., 0, :], _at_risk(read.sum(axis=-2))
    all_at_risk = at_risk.sum(axis=-2, keepdims=True)
    share = np.divide(at_risk, all_at_risk, out=np.zeros_like(at_risk), where=all_at_risk > 0)
    expected = share * events.sum(axis=-2, keepdims=True)
    return np.asarray((events - expected).sum(axis=-1)[..., :-1])


def _log_rank(read: Floats, noisy: Floats, design_effect: float) -> float | None:
    """P-value of the log-rank test (Mantel 1966), with the noise in its variance."""
    # Shapes: read [groups, 2, bins], noisy [draws, groups, 2, bins].
    groups = len(read)
    if groups < 2:
        return None
    statistic = _observed_less_expected(read)
    # By chance, if all have one hazard: hypergeometric, bin by bin.
    at_risk = _at_risk(read.sum(axis=1))
    n, d = at_risk.sum(axis=0), read[:, 0].sum(axis=0)
    many = n > 1
    share = at_risk[:, many] / n[many]
    spread = (d * (n - d))[many] / (n[many] - 1)
    by_chance = np.diag((share * spread).sum(axis=1)) - (share * spread) @ share.T
    by_noise = np.atleast_2d(np.cov(_observed_less_expected(noisy), rowvar=False))
    covariance = max(design_effect, 1.0) * by_chance[:-1, :-1] + by_noise
    distance = float(statistic @ np.linalg.solve(covariance, statistic))
    return float(chi2.sf(distance, groups - 1))
