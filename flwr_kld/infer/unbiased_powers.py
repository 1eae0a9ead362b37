"""Unbiased estimates of ``(μ - A)**k`` from a count of mean μ with noise, and their covariances.

A count X is Poisson(μ), the noise Z has a known law, and Y = X + Z is seen. The estimates C_k have
the generating function ``Σ C_k t^k / k! = (1 + t)^Y exp(-A t) / E (1 + t)^Z``, since
``E (1 + t)^X = exp(μ t)``: Charlier's polynomials, less what the noise adds. Proof note:
``docs/proofs/decisions.md``.

`HIGHEST` power that is estimated: with 4 or 16 for 8, the limit of `upper_limit` is .122 or .125
nats above the truth for .119, in its 800 checks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import NoiseTable

Floats = NDArray[np.float64]

HIGHEST = 8


@dataclass(frozen=True, eq=False)
class UnbiasedPowers:
    """What the law of the noise contributes."""

    series: tuple[float, ...]  # Coefficients of ``d/dt ln E (1 + t)^Z``, from t^0 on
    covariance: Floats  # Shape [9, 9]: ``E C_k C_l`` of the noise alone, at μ = A = 0

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, noise: NoiseTable) -> UnbiasedPowers:
        """Compute them from the noise's exact probabilities."""
        z, chance = noise.support.astype(np.float64), noise.probabilities
        falling, h = np.ones_like(z), []
        for k in range(HIGHEST + 2):
            h.append(float(falling @ chance) / math.factorial(k))
            falling = falling * (z - k)
        series = _log_derivative(h)
        found = np.stack(cls(series, np.zeros(())).estimates(z, np.zeros_like(z), HIGHEST))
        covariance = (found * chance) @ found.T
        covariance[0, 1:] = covariance[1:, 0] = 0  # exactly, as the others have mean 0
        return cls(series, covariance)

    def estimates(self, counts: Floats, expected: Floats, highest: int) -> list[Floats]:
        """Return C_0, …, C_highest for each count Y, around A = `expected`; shapes [cells]."""
        found = [np.ones_like(counts)]
        for k in range(highest):
            following = (counts - expected) * found[k]
            for j in range(k + 1):
                ahead = -self.series[j] + (0.0 if j == 0 else (-1) ** j * counts)
                following = following + math.perm(k, j) * ahead * found[k - j]
            found.append(following)
        return found

    def covariances(self, mean: Floats, highest: int) -> Floats:
        """Return ``Cov(C_k, C_l)`` around A = μ = `mean`, shape [highest + 1, highest + 1, cells].

        ``Σ_j binom(k, j) binom(l, j) j! μ^j E C_{k-j} C_{l-j}``, the last of the noise alone.
        """
        some = slice(highest + 1)
        powers = mean ** np.arange(highest + 1)[:, None]
        return np.asarray(np.tensordot(self._of_mean[some, some, some], powers, (0, 0)))

    @cached_property
    def _of_mean(self) -> Floats:
        """Factors of ``μ^j`` in the covariance of ``C_k`` and ``C_l``, at [j, k, l]."""
        of_mean = _ways().copy()
        for j in range(HIGHEST + 1):
            of_mean[j, j:, j:] *= self.covariance[: HIGHEST + 1 - j, : HIGHEST + 1 - j]
        return of_mean

    def scaled(self, factor: float) -> UnbiasedPowers:
        """Return about those of noise whose standard deviation is `factor` times as large."""
        power = np.arange(HIGHEST + 1)
        return UnbiasedPowers(
            self.series, self.covariance * factor ** (power[:, None] + power[None, :])
        )


@cache
def _ways() -> Floats:
    """``binom(k, j) binom(l, j) j!`` at [j, k, l]."""
    powers = range(HIGHEST + 1)
    ways = np.array([[math.comb(k, j) for k in powers] for j in powers], dtype=np.float64)
    sorts = np.array([math.factorial(j) for j in powers], dtype=np.float64)
    return sorts[:, None, None] * ways[:, :, None] * ways[:, None, :]


def _log_derivative(h: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of h'/h from those of the power series h, with h[0] = 1."""
    found: list[float] = []
    for j in range(len(h) - 1):
        found.append((j + 1) * h[j + 1] - sum(found[i] * h[j - i] for i in range(j)))
    return tuple(found)
