"""How likely a noisy count is under each component of a law of ``r = P / Π``.

A component says that a symbol's ratio is Gamma with mean ``e^u`` and relative deviation `_SPACING`,
that of the grid of u, so a mixture of components is smooth however sharp the likelihood. Its count
is then negative binomial. Component 0 says: never seen.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.special import gammaln

from flwr_kld.inference.estimators.groups import Groups
from flwr_kld.inference.estimators.noise_window import NoiseWindow
from flwr_kld.inference.estimators.score import Floats, exp, score
from flwr_kld.kernel.law import NoiseTable

_SPACING = 0.2
_SHAPE = 1 / _SPACING**2
"""Of the Gamma law."""
_TOP = 6.0


def component_grid(theta: float) -> Floats:
    """Means ``ln r`` of the components, shape [U]; low enough that φ has levelled off."""
    low = -max(7.0, 2.5 - math.log(max(theta, 1e-6)))
    return np.arange(low, _TOP + _SPACING / 2, _SPACING)


def _log_pmf(h: Floats, mean: Floats) -> Floats:
    """Log pmf of the Gamma-Poisson count with this mean, broadcast."""
    ways = gammaln(h + _SHAPE) - gammaln(_SHAPE) - gammaln(h + 1)
    log_pmf = -h * np.log1p(_SHAPE / mean)
    log_pmf += ways
    log_pmf -= _SHAPE * np.log1p(mean / _SHAPE)
    return log_pmf


class Likelihood:
    """Noisy counts of all groups against all components; tables are built once."""

    def __init__(self, groups: Groups, noise: NoiseTable, theta: float) -> None:
        self.groups = groups
        self.grid = component_grid(theta)
        self.noise_variance = noise.variance
        window = NoiseWindow(groups, noise)
        self._blurred, self._window, self._counts = window.at, window.chance, window.counts
        expected = np.exp(groups.log_expected)
        grid = np.append(self.grid[0], self.grid)  # the first one's place is for the unseen
        mean = expected[:, None] * np.exp(grid)
        self._table = exp(_log_pmf(self._counts[:, None], mean[:, None, :]))
        self._table[:, :, 0] = self._counts == 0
        self._score = score(self._counts / expected[:, None], theta)
        self._slices = self._bin_slices()
        self._sharp_rows = self._sharp(mean)

    def _bin_slices(self) -> list[tuple[int, int, int]]:
        """(bin, first, end) of the blurred groups of every bin that has some."""
        bins = self.groups.bin_of[self._blurred]
        ends = np.searchsorted(bins, np.arange(len(self.groups.log_expected) + 1))
        spans = enumerate(pairwise(ends))
        return [(b, int(first), int(end)) for b, (first, end) in spans if end > first]

    def _sharp(self, mean: Floats) -> Floats:
        sharp = self.groups.sharp
        rows = _log_pmf(self.groups.value[sharp, None], mean[self.groups.bin_of[sharp]])
        rows = exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
        rows[:, 0] = 0.0
        return rows

    def _twist(self, tilt: float) -> Floats:
        """``e^(tilt h)`` up to a constant that keeps it at most 1, shape [H]."""
        return np.exp(tilt * (self._counts - (self._counts[-1] if tilt > 0 else 0.0)))

    def rows(self, tilt: float) -> Floats:
        """Likelihood of each group under each component, [G, U + 1], each row scaled to max 1."""
        # `tilt` multiplies the weight of h records by ``e^(tilt h)``: see `posterior_counts`.
        rows = np.empty((len(self.groups.size), len(self.grid) + 1))
        rows[self.groups.sharp] = self._sharp_rows
        blurred = np.empty((len(self._blurred), rows.shape[1]))
        window = self._window * self._twist(tilt)
        for b, first, end in self._slices:
            blurred[first:end] = window[first:end] @ self._table[b]
        blurred += 1e-290  # a count that no component explains tells nothing, and divides by itself
        rows[self._blurred] = blurred / blurred.max(axis=1, keepdims=True)
        return rows

    def counts(self, prior: Floats, tilt: float) -> tuple[Floats, Floats]:
        """Posterior mean and variance of the count of each group, 2 x [G]."""
        # Shapes: prior [B, U + 1].
        h, at = self._counts, self._blurred
        sums = self._posterior(prior, tilt) @ np.stack([np.ones_like(h), h, h * h], axis=1)
        mean, square = sums[:, 1:].T / sums[:, 0]
        counts = np.maximum(self.groups.value, 0.0)
        variance = np.full(len(counts), self.noise_variance)
        counts[at], variance[at] = mean, np.maximum(square - mean**2, 0.0)
        return counts, variance

    def scores(self, prior: Floats, tilt: float) -> tuple[Floats, Floats]:
        """Posterior mean and variance of each group's score, 2 x [G]; 0 for sharp groups."""
        # Those of sharp groups are left at 0: they are read cell by cell.
        posterior, at = self._posterior(prior, tilt), self._blurred
        posterior /= posterior.sum(axis=1, keepdims=True)
        possible = np.isfinite(self._score)
        score_ = np.where(possible, self._score, 0.0)[self.groups.bin_of[at]]
        mean = np.einsum("gh,gh->g", posterior, score_)
        variance = np.einsum("gh,gh->g", posterior, score_**2) - mean**2
        impossible = np.einsum("gh,gh->g", posterior, ~possible[self.groups.bin_of[at]])
        out = np.zeros((2, len(self.groups.size)))
        out[:, at] = np.where(impossible > 1e-12, np.inf, mean), np.maximum(variance, 0.0)
        return out[0], out[1]

    def _posterior(self, prior: Floats, tilt: float) -> Floats:
        """Posterior of the count of each blurred group, up to a factor, shape [blurred, H]."""
        # Where no component reaches, the floor leaves the noise alone to speak.
        law = (self._table @ prior[:, :, None])[:, :, 0] * self._twist(tilt) + 1e-250
        posterior: Floats = self._window * law[self.groups.bin_of[self._blurred]]
        return posterior
