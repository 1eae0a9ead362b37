"""Intervals for the shares of all cells at once, from noised counts.

A count differs from its expectation by sampling and by noise. The noise's law is known exactly,
and given the count of the cohort, Clopper and Pearson (1934) bound the share; both errors have
half of what a cell may err. All cells together err with at most the sum of theirs (Bonferroni).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.privacy.table import TOTAL, NoiseTable

Floats = NDArray[np.float64]


def share_intervals(
    counts: NoisyCounts, *, level: float, design_effect: float
) -> tuple[Floats, Floats]:
    """Lower and upper ends, two times shape [cells].

    Parameters
    ----------
    counts : NoisyCounts
        A check's counts, noised.
    level : float
        In (0, 1): probability that no cell's interval misses its share, at least. Holds for
        records drawn independently from the population; records that come in clusters are
        allowed for by `design_effect`, approximately.
    design_effect : float
        >= 1: N records tell as much as ``N / design_effect`` independent ones.
    """
    error = 1 - level
    fewest = most = counts.records
    if counts.event.guarantee.adjacency is Adjacency.ADD_REMOVE:
        # The number of records is the sum of the noisy cells: half of the error is its.
        error /= 2
        deviation = (counts.plan.cells * counts.noise.variance) ** 0.5
        away = float(-ndtri(error / 2)) * deviation
        fewest, most = max(counts.records - away, 1.0), counts.records + away
    each = error / counts.plan.cells / 4  # noise and sampling, above and below
    reach = _noise_quantile(counts.noise, each)
    h_low = np.maximum(counts.values - reach, 0) / design_effect
    h_high = np.maximum(counts.values + reach, 0) / design_effect
    fewest, most = fewest / design_effect, most / design_effect
    with np.errstate(invalid="ignore"):
        low = betaincinv(h_low, np.maximum(most - h_low, 0) + 1, each)
        high = betainccinv(h_high + 1, fewest - h_high, each)
    return np.where(h_low > 0, low, 0.0), np.where(h_high < fewest, high, 1.0)


def _noise_quantile(noise: NoiseTable, error: float) -> int:
    """Least q with ``P(Z > q) <= error``; the table's reach where no q inside does."""
    beyond, q, allowed = noise.tail / 2, noise.reach, error * TOTAL
    while q > 0 and beyond + noise.weights[noise.reach + q] <= allowed:
        beyond += noise.weights[noise.reach + q]
        q -= 1
    return q
