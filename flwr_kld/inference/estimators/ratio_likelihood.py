"""How likely a noisy count is at each ratio ``r = P / Π`` of a grid: Poisson, then the noise."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from flwr_kld.inference.estimators.free_law import GRID
from flwr_kld.inference.estimators.groups import Groups
from flwr_kld.inference.estimators.noise_window import NoiseWindow
from flwr_kld.inference.estimators.score import Floats, exp
from flwr_kld.kernel.law import NoiseTable

_IMPOSSIBLE = 1e-290
"""Likelihood of a count that no ratio explains: it tells nothing."""


def ratio_likelihood(groups: Groups, noise: NoiseTable, log_mean: Floats) -> Floats:
    """Likelihood of each group under each ratio of the grid, [G, U], each row scaled to max 1."""
    # Shapes: log_mean [B].
    window = NoiseWindow(groups, noise)
    log_count = (groups.log_expected + log_mean)[:, None] + GRID
    mean = np.exp(log_count)
    mean[:, 0], log_count[:, 0] = 0.0, -800.0  # r = 0
    h = window.counts[:, None]
    ways = gammaln(h + 1)
    rows = np.zeros((len(groups.size), len(GRID)))
    ends = np.searchsorted(groups.bin_of[window.at], np.arange(len(mean) + 1))
    for b in np.flatnonzero(np.diff(ends)):
        part = slice(ends[b], ends[b + 1])
        poisson = h * log_count[b]
        poisson -= mean[b]
        poisson -= ways
        rows[window.at[part]] = window.chance[part] @ exp(poisson)
    sharp = np.flatnonzero(groups.sharp)
    value, at = groups.value[sharp, None], groups.bin_of[sharp]
    rows[sharp] = exp(value * (log_count[at] - np.log(value)) - mean[at] + value)
    rows += _IMPOSSIBLE
    scaled: Floats = rows / rows.max(axis=1, keepdims=True)
    return scaled


def shifted(rows: Floats, by: Floats) -> Floats:
    """Read likelihoods on the grid at ``u + by``, between two of its points; r = 0 stays there."""
    place = np.interp(GRID + by[:, None], GRID, np.arange(len(GRID)))
    place = np.maximum(place, 1.0)
    place[:, 0] = 0.0
    low = np.minimum(place.astype(np.int64), len(GRID) - 2)
    above, group = place - low, np.arange(len(by))[:, None]
    read: Floats = (1 - above) * rows[group, low] + above * rows[group, low + 1]
    return read
