"""Simultaneous confidence intervals of the fractions of cells, or of groups of them.

A count differs from its expectation by sampling and by noise. The noise's law is known exactly,
and given the count of the cohort, Clopper and Pearson (1934) bound the fraction; both errors have
half of what an interval may err. All cells together err with at most the sum of theirs
(Bonferroni). A design effect of 0 says that nothing was sampled: the fraction is that of the very
records that were counted, and noise is the only error. Of drawn clients, sampling errs as much as
if the fraction were what is tested: the smaller one is, the more alike its records may be, so with
D(q) that design effect and g(q) the upper end that goes with it, max(q, g(q)) is one for every q.

Numbers, and what a half or twice as much does to 60 checks of 20 and 200 cells at a design effect
of 5: all intervals of a check hold in 60, .107 wide on average.

========  ==========  ==============================================================================
number    unit        meaning, and what a half or twice as much does
========  ==========  ==============================================================================
LEVEL     confidence  of the intervals that reports show: a promise, which nothing was tuned for
_TESTED   fractions   at which upper ends are tested, over the largest that noise allows; the first
                      alone, and twice as many: 60, .122 wide / 60, .101 wide
_ROUNDED  nats        minus the logarithm of what float64 rounds: no change
========  ==========  ==============================================================================
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.cell_fractions import as_law, noisy_fractions
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.kernel.law import TOTAL, NoiseTable

Floats = NDArray[np.float64]

LEVEL = 0.95
_TESTED = (1.0, 1.5, 2.5, 5.0)
_ROUNDED = 53 * math.log(2)


def fraction_intervals(
    counts: NoisyCounts,
    *,
    level: float,
    effects: DesignEffects = INDEPENDENT,
    usual: Floats | float = math.nan,
) -> tuple[Floats, Floats]:
    """Lower and upper ends, two times shape [cells]; 0 and 1 where noise may hide what is usual."""
    fewest, most, error = records_between(counts, 1 - level)
    each = _each_side(error / counts.plan.cells, effects)
    reach = np.asarray(_noise_quantile(counts.noise, each))
    single = np.ones(counts.plan.cells, dtype=np.int64)
    return _ends(counts, counts.values, single, reach, (fewest, most), each, effects, usual)


def group_intervals(
    counts: NoisyCounts,
    groups: NDArray[np.bool_] | Floats,
    *,
    level: float,
    effects: DesignEffects = INDEPENDENT,
) -> tuple[Floats, Floats]:
    """Lower and upper ends of the fractions of groups of cells, each at a level of its own."""
    of_cells = np.column_stack([counts.values, np.ones(groups.shape[1])])
    held, sizes = (groups.astype(np.float64, copy=False) @ of_cells).T  # exact: below 2**53
    return sum_intervals(counts, held, sizes, level=level, effects=effects)


def sum_intervals(
    counts: NoisyCounts,
    held: Floats,
    sizes: Floats,
    *,
    level: float,
    effects: DesignEffects = INDEPENDENT,
    usual: Floats | float = math.nan,
) -> tuple[Floats, Floats]:
    """Return the ends of `group_intervals` from the counts that groups hold, in so many cells.

    They are 0 and 1 where noise alone may hide a `usual` fraction.
    """
    fewest, most, error = records_between(counts, 1 - level)
    # Where N is known, what a group leaves out says as much, with the noise of its own cells.
    cells = counts.plan.cells
    flip = (fewest == most) & (sizes > cells / 2)
    nearest = np.where(flip, cells - sizes, sizes).astype(np.int64)
    each = _each_side(error, effects)
    reach = _quantiles_of_sums(counts.noise, tuple(nearest.tolist()), each)
    held = np.where(flip, counts.values.sum() - held, held)
    usual = np.where(flip, 1 - usual, usual)
    low, high = _ends(counts, held, nearest, reach, (fewest, most), each, effects, usual)
    return np.where(flip, 1 - high, low), np.where(flip, 1 - low, high)


def count_interval(
    counts: NoisyCounts, group: NDArray[np.bool_], *, level: float
) -> tuple[float, float, float, float]:
    """Return how many records are in a group of cells, its deviation and its limits, by noise."""
    values, noise = counts.values.astype(np.float64), counts.noise
    held, size = float(values[group].sum()), int(group.sum())
    if counts.total_is_known and size > len(values) / 2:  # then the others tell it better
        held, size = counts.records - float(values[~group].sum()), len(values) - size
    reach = int(_quantiles_of_sums(noise, (size,), (1 - level) / 2)[0])
    most = counts.records if counts.total_is_known else math.inf
    # Noise may put a count below 0, or above all records: the nearest possible one stands for it.
    held = min(max(held, 0.0), most)
    low, high = max(held - reach, 0.0), min(held + reach, most)
    return held, math.sqrt(size * noise.variance), low, high


def fraction_variance(
    counts: NoisyCounts, share: Floats, *, design_effect: float | Floats
) -> Floats:
    """Variance of ``y / N`` for cells with these fractions, of sampling and noise; [cells]."""
    total, cells = counts.records, counts.plan.cells
    noise = np.full(cells, counts.noise.variance)
    if not counts.total_is_known:  # N is the sum of the noisy counts
        noise *= 1 - 2 * share + cells * share**2
    variance: Floats = design_effect * share * (1 - share) / total + noise / total**2
    return variance


def noise_of(counts: NoisyCounts, weights: Floats) -> Floats:
    """Return what noise of variance 1 in each cell adds to ``weights @ y / N``, of a known N."""
    mean = weights.mean(axis=1, keepdims=True) if counts.total_is_known else 0.0
    found: Floats = weights - mean
    found *= math.sqrt(counts.noise.variance) / counts.records
    return found


def weighted_variance(
    counts: NoisyCounts, weights: Floats, share: Floats, *, design_effect: float | Floats
) -> Floats:
    """Variance of ``weights @ y / N``, of sampling and noise, shape [rows]."""
    total, mean = counts.records, weights @ share
    # Either N is the sum of the noisy counts, or known, and with it the sum of the noise.
    noise = weights - (weights.mean(axis=1) if counts.total_is_known else mean)[:, None]
    noise = np.square(noise, out=noise).sum(axis=1) * counts.noise.variance / total**2
    variance: Floats = design_effect / total * (weights**2 @ share - mean**2) + noise
    return variance


def records_between(counts: NoisyCounts, error: float) -> tuple[float, float, float]:
    """Return the fewest and the most records there are, and the error that this leaves."""
    if counts.total_is_known:
        return counts.records, counts.records, error
    # The number of records is the sum of the noisy cells: half of the error is its.
    away = float(_quantiles_of_sums(counts.noise, (counts.plan.cells,), error / 4)[0])
    return max(counts.records - away, 1.0), counts.records + away, error / 2


def _each_side(error: float, effects: DesignEffects) -> float:
    """Return what noise, and sampling if there is any, may err on one side."""
    return error / 4 if effects.average else error / 2


def _ends(
    counts: NoisyCounts,
    values: NDArray[np.int64] | Floats,
    sizes: NDArray[np.int64],
    reach: NDArray[np.int64],
    between: tuple[float, float],
    each: float,
    effects: DesignEffects,
    usual: Floats | float,
) -> tuple[Floats, Floats]:
    """Return ends for noise that goes beyond `reach` on either side with chance `each`."""
    # Of groups of so many cells; all records are `between` two numbers. Shapes: [groups].
    fewest, most = between
    # The nearest possible counts, as in `count_interval`
    held: Floats = np.minimum(np.maximum(values, 0.0), most)
    least, largest = np.maximum(held - reach, 0), held + reach
    if not effects.average:
        return least / most, np.minimum(largest / fewest, 1)
    low, high = np.zeros(len(held)), np.ones(len(held))
    # Sampling only widens what noise leaves
    some = ~((least <= usual * most) & (usual * fewest <= largest))
    if not some.any():
        return low, high
    held, least, largest, sizes = held[some], least[some], largest[some], sizes[some]
    law = as_law(noisy_fractions(counts), counts.plan.mass)
    low[some] = _lower(least, most, each, effects.of_shares(held / most, sizes, law))
    times = np.array(_TESTED if effects.most > 1 else (1.0,))[:, None]
    tested = np.minimum(times * largest / fewest, 1)
    effect = effects.of_shares(tested, sizes, law)
    end = 1 - _lower(fewest - largest, fewest, each, effect)
    high[some] = (end if effects.most <= 1 else np.maximum(end, tested)).min(axis=0)
    return low, high


def _lower(held: Floats, records: float, error: float, effect: Floats) -> Floats:
    """Return the lower end of the fraction of so many records, as many of which count as one."""
    several = np.maximum(held, 0) / effect
    with np.errstate(invalid="ignore"):
        low = scipy.special.betaincinv(
            several, np.maximum(records / effect - several, 0) + 1, error
        )
    return np.where(several > 0, low, 0.0)


@lru_cache(maxsize=64)
def _noise_quantile(noise: NoiseTable, error: float) -> int:
    """Least q with ``P(Z > q) <= error``; the table's reach where no q inside does."""
    return noise.reach - int(np.searchsorted(_beyond(noise), error, side="right"))


@lru_cache(maxsize=8)
def _beyond(noise: NoiseTable) -> Floats:
    """``P(Z >= q)``, from the table's reach down to 1."""
    beyond = np.append(noise.tail / 2 / TOTAL, noise.probabilities[: noise.reach : -1])
    return np.cumsum(beyond)[1:]


@lru_cache(maxsize=64)
def _quantiles_of_sums(
    noise: NoiseTable, sizes: tuple[int, ...], error: float
) -> NDArray[np.int64]:
    """Least q >= 0 with ``P(Z_1 + … + Z_m > q) <= error`` for each number m in `sizes`.

    Exact for one draw, by a Fourier transform in float64 for several.
    """
    if not noise.reach:
        return np.zeros(len(sizes), dtype=np.int64)
    of_size = {0: 0, 1: _noise_quantile(noise, error)}
    several = sorted(set(sizes) - of_size.keys())
    for m in several:
        beyond = _sum_beyond(noise, m, several[-1])
        of_size[m] = len(beyond) - int(np.searchsorted(beyond, error, side="right"))
    return np.array([of_size[m] for m in sizes], dtype=np.int64)


@lru_cache(maxsize=8)
def _sum_beyond(noise: NoiseTable, number: int, most: int) -> Floats:
    """``P(Z_1 + … + Z_number >= q)``, from the largest q down to 1."""
    transformed, length, far = _transformed(noise, most)
    heard = np.flatnonzero(np.abs(transformed) > math.exp(-_ROUNDED / number))
    law = np.fft.irfft(transformed[: heard[-1] + 1] ** number, length)
    return np.cumsum(law[far:0:-1])


@lru_cache(maxsize=8)
def _transformed(noise: NoiseTable, most: int) -> tuple[Floats, int, int]:
    """Fourier transform of the noise, its length, and how far sums of so many draws go."""
    # Beyond `far` no sum is with more chance than float64 rounds (Chernoff's bound, at the tilt
    # that is best for Gaussian noise), so that nothing wraps around that could be seen.
    tilt = math.sqrt(2 * _ROUNDED / (most * noise.variance))
    exponent = (
        most * scipy.special.logsumexp(tilt * noise.support, b=noise.probabilities) + _ROUNDED
    )
    far = max(min(noise.reach * most, int(exponent / tilt) + 1), noise.reach)
    law = np.zeros(1 << (2 * far + 1).bit_length())  # a prime length takes many times as long
    law[noise.support] = noise.probabilities
    return np.fft.rfft(law).real, len(law), far  # of a symmetric law
