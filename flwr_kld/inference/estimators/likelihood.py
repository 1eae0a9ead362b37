"""How likely a noisy count is under each component of a law of ``r = P / Π``.

A component says that a symbol's ratio is Gamma with mean ``e^u`` and relative deviation `spacing`,
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
from flwr_kld.inference.estimators.score import Floats, score
from flwr_kld.privacy.table import NoiseTable

SPACING = 0.2
_TOP = 6.0


def component_grid(theta: float, spacing: float = SPACING) -> Floats:
    """Means ``ln r`` of the components, shape [U]; low enough that φ has levelled off."""
    low = -max(7.0, 2.5 - math.log(max(theta, 1e-6)))
    return np.arange(low, _TOP + spacing / 2, spacing)


def _log_pmf(h: Floats, mean: Floats, shape: float) -> Floats:
    """Log pmf of the Gamma-Poisson count with this mean and shape, broadcast."""
    ways = gammaln(h + shape) - gammaln(shape) - gammaln(h + 1)
    log_pmf: Floats = ways - h * np.log1p(shape / mean) - shape * np.log1p(mean / shape)
    return log_pmf


class Likelihood:
    """Noisy counts of all groups against all components; tables are built once.

    Parameters
    ----------
    groups : Groups
        G groups in B bins.
    noise : NoiseTable
        Law of the noise.
    theta : float
        Of the score.
    spacing : float
        Of the components' ln r.
    """

    def __init__(
        self, groups: Groups, noise: NoiseTable, theta: float, spacing: float = SPACING
    ) -> None:
        self.groups = groups
        self.grid = component_grid(theta, spacing)
        self._shape = 1 / spacing**2
        self.noise_variance = noise.variance
        window = NoiseWindow(groups, noise)
        self._blurred, self._window, self._counts = window.at, window.chance, window.counts
        expected = np.exp(groups.log_expected)
        mean = expected[:, None] * np.exp(self.grid)
        table = np.exp(_log_pmf(self._counts[:, None], mean[:, None, :], self._shape))
        unseen = np.zeros((*table.shape[:2], 1))
        unseen[:, 0] = 1.0
        self._table = np.concatenate([unseen, table], axis=2)
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
        rows = _log_pmf(
            self.groups.value[sharp, None], mean[self.groups.bin_of[sharp]], self._shape
        )
        rows = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
        return np.concatenate([np.zeros((len(rows), 1)), rows], axis=1)

    def _twist(self, tilt: float) -> Floats:
        """``e^(tilt h)`` up to a constant that keeps it at most 1, shape [H]."""
        return np.exp(tilt * (self._counts - (self._counts[-1] if tilt > 0 else 0.0)))

    def rows(self, tilt: float) -> Floats:
        """Likelihood of each group under each component, [G, U + 1], each row scaled to max 1.

        `tilt` multiplies the weight of h records by ``e^(tilt h)``: see `posterior_counts`.
        """
        rows = np.empty((len(self.groups.size), len(self.grid) + 1))
        rows[self.groups.sharp] = self._sharp_rows
        blurred = np.empty((len(self._blurred), rows.shape[1]))
        window = self._window * self._twist(tilt)
        for b, first, end in self._slices:
            blurred[first:end] = window[first:end] @ self._table[b]
        blurred += 1e-290  # a count that no component explains tells nothing, and divides by itself
        rows[self._blurred] = blurred / blurred.max(axis=1, keepdims=True)
        return rows

    def moments(self, prior: Floats, tilt: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Posterior mean and variance of the count and of its score for each group, 4 x [G].

        Scores of sharp groups are left at 0: they are read cell by cell.

        Parameters
        ----------
        prior : Floats
            Weight of the components in each bin, shape [B, U + 1].
        """
        size = len(self.groups.size)
        out = np.zeros((4, size))
        out[0], out[1] = np.maximum(self.groups.value, 0.0), self.noise_variance
        twist = self._twist(tilt)
        h = self._counts
        for b, first, end in self._slices:
            # Where no component reaches, the floor leaves the noise alone to speak.
            law = (self._table[b] @ prior[b]) * twist + 1e-250
            f = self._score[b]
            possible = np.isfinite(f)
            f = np.where(possible, f, 0.0)
            basis = law[:, None] * np.stack([np.ones_like(h), h, h * h, f, f * f, ~possible], 1)
            sums = self._window[first:end] @ basis
            sums = sums[:, 1:] / sums[:, :1]
            at = self._blurred[first:end]
            out[0, at], out[1, at] = sums[:, 0], np.maximum(sums[:, 1] - sums[:, 0] ** 2, 0.0)
            out[2, at], out[3, at] = sums[:, 2], np.maximum(sums[:, 3] - sums[:, 2] ** 2, 0.0)
            out[2, at[sums[:, 4] > 1e-12]] = np.inf
        return out[0], out[1], out[2], out[3]
