"""Shares behind a noised histogram: empirical Bayes for a whole distribution.

Each cell's expected count is believed to come from one unknown law, which the noised counts
themselves show (EM on a grid); the noise is known exactly. The posterior mean of the expected count
minimises the expected KL from the truth, and is never 0. Public post-processing.

It replaces 'clip at 0, mix with a floor, normalise', even with the floor that is best in hindsight:
``simulations/studies/integral_references.py``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from flwr_kld.integral.base import Floats
from flwr_kld.privacy.table import NoiseTable

_SPACING = 0.2
"""Of the grid of ln(expected count)."""
_SHARP = 20.0
"""Counts of this many noise deviations are read as they are."""
_RAREST = 1e-4
"""Least expected count believed in, in records."""
_STEPS = 200
"""Of EM; stopped early on purpose: where the noise drowns the counts, more steps overfit it."""
_LEAST = 1e-15
"""Likelihood that float64 cannot tell from zero after a Fourier transform."""


def denoised_shares(values: NDArray[np.int64], noise: NoiseTable) -> Floats:
    """Estimate the distribution that a noised histogram was counted from.

    Parameters
    ----------
    values : NDArray[np.int64]
        Noised counts, shape [cells]; may be negative.
    noise : NoiseTable
        Law of the noise in each cell.

    Returns
    -------
    Floats
        Shape [cells], positive, summing to 1.
    """
    deviation = math.sqrt(noise.variance)
    sharp = values > _SHARP * max(deviation, 1.0)
    rates = np.where(sharp, values, 0).astype(np.float64)
    if not sharp.all():
        rates[~sharp] = _posterior_rates(values[~sharp], noise, deviation)
    shares: Floats = rates / rates.sum()
    return shares


def _posterior_rates(values: NDArray[np.int64], noise: NoiseTable, deviation: float) -> Floats:
    """Posterior mean of the expected count behind each value, shape [cells]."""
    from scipy.signal import fftconvolve  # imported here: it takes a second

    top = _SHARP * max(deviation, 1.0)
    rate = np.exp(np.arange(math.log(_RAREST), math.log(2 * top) + _SPACING, _SPACING))
    counts = np.arange(math.ceil(rate[-1] + 10 * math.sqrt(rate[-1])))
    poisson = np.exp(counts * np.log(rate)[:, None] - rate[:, None] - gammaln(counts + 1))
    law = fftconvolve(poisson, noise.probabilities[None], axes=1)  # of values from -reach up
    place = np.clip(values + noise.reach, 0, law.shape[1] - 1)
    places, cell, times = np.unique(place, return_inverse=True, return_counts=True)
    likelihood = np.maximum(law[:, places].T, 0.0) + _LEAST
    prior = np.full(len(rate), 1 / len(rate))
    for _ in range(_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = (times @ posterior + 1 / len(rate)) / (times.sum() + 1)
    posterior = likelihood * prior
    mean: Floats = (posterior @ rate) / posterior.sum(axis=1)
    return mean[cell]
