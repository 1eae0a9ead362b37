"""How the mean of ``r = P / Π`` changes with Π: ``E[r] = e^a``, a line in ln Π that bends.

Drifts that flatten or steepen a distribution, or empty its tail, move rare symbols otherwise than
frequent ones; what is left of r once that is taken out can then follow one law in all cells. Fitted
by quasi-likelihood: counts have mean ``m e^a`` and variance
``effect m e^a + noise + spread (m e^a)²``.

Two numbers were tuned. `_BENDS` are quantiles of ln Π over the single symbols at which the line may
bend: closer where symbols are rare. `_DEVIATIONS` are those of the coefficients about 0, a priori,
per deviation of ln Π; the level is free. Halved or doubled, the root mean square error of the
population's number is .109 or .122 for .118, and the cohort's .089 or .095 for .094, in the 24
questions of `drift_shapes`. `_STEPS` end the fit, `_MOST` bounds a (half of each and twice as much
change nothing), and `_FINEST` is how finely floats tell a sum beside the prior (no change by 10).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flwr_kld.common.errors import EstimateUndefined
from flwr_kld.infer.estimators.score import Floats

_BENDS = (0.9, 0.7, 0.4, 0.2, 0.1)
_DEVIATIONS = np.array([1e3, 0.5, *np.full(len(_BENDS), 0.5)])
_STEPS = 12
_MOST = 6.0
_FINEST = 1e-6


@dataclass(frozen=True, eq=False)
class Counted:
    """What the trend is fitted to: noisy counts of single symbols, and of many together."""

    value: Floats  # Shape [J], in records; the first S are single symbols
    expected: Floats  # Shape [J], N Π, in records, > 0
    log_symbol: Floats  # Shape [J], ln of N Π of a symbol; its mean over Π where there are many
    crowding: Floats  # Shape [J], Σ Π² / (Σ Π)² over the symbols: 1 for one alone
    total: float  # What is known of N P over the single symbols together
    total_variance: float
    design_effect: float  # Of a count

    def after(self, singles: int) -> Counted:
        """Return the counts of many symbols together."""
        return replace(
            self,
            value=self.value[singles:],
            expected=self.expected[singles:],
            log_symbol=self.log_symbol[singles:],
            crowding=self.crowding[singles:],
        )


@dataclass(frozen=True, eq=False)
class Trend:
    """The fitted trend."""

    log_mean: Floats  # a of each count, shape [J]
    design: Floats  # Slope of a in the coefficients, shape [J, coefficients]
    covariance: Floats  # Of the coefficients, shape [coefficients, coefficients]
    # What its slope and bends cost, in nats (Occam's factor): a trend is a choice among many
    evidence: float


def fit_trend(counted: Counted, noise: float, singles: int) -> Trend:
    """Fit the trend by Fisher scoring; `EstimateUndefined` of counts that nobody can have."""
    try:
        return _fitted(counted, noise, singles)
    except np.linalg.LinAlgError:
        raise EstimateUndefined("the counts are too far from their number to be true") from None


def _fitted(counted: Counted, noise: float, singles: int) -> Trend:
    y, expected, crowding = counted.value, counted.expected, counted.crowding
    share = expected / expected.sum()
    x = counted.log_symbol - share @ counted.log_symbol
    x = x / max(float(np.sqrt(share @ x**2)), 1.0)
    bends = np.quantile(x[:singles] if singles else x, _BENDS)
    design = np.column_stack([np.ones_like(x), x, np.maximum(bends - x[:, None], 0)])
    precision = np.diag(_DEVIATIONS**-2.0)
    at, spread = np.zeros(len(_DEVIATIONS)), 0.0
    told = precision
    for _ in range(_STEPS):
        mean = expected * np.exp(np.clip(design @ at, -_MOST, _MOST))
        by_chance = counted.design_effect * mean + noise
        variance = by_chance + spread * crowding * mean**2
        slope = design.T @ (mean * (y - mean) / variance) - precision @ at
        told = (design * (mean**2 / variance)[:, None]).T @ design + precision
        # The single symbols' sum is known more finely than the sum of their noisy counts.
        single = mean[:singles]
        known = counted.total_variance + spread * single @ single
        known += max(1.0, _FINEST * counted.total) ** 2
        moved = single @ design[:singles]
        slope += moved * (counted.total - single.sum()) / known
        told += np.outer(moved, moved) / known
        step = np.linalg.solve(told, slope)
        at = at + step / max(1.0, float(np.abs(step).max()))
        weight = crowding * (mean / variance) ** 2
        excess = weight @ ((y - mean) ** 2 - by_chance)
        spread = max(0.0, float(excess / ((weight * crowding) @ mean**2)))
    log_mean = np.clip(design @ at, -_MOST, _MOST)
    covariance = np.asarray(np.linalg.inv(told), dtype=np.float64)
    _, told_apart = np.linalg.slogdet(covariance[1:, 1:])
    scaled = at[1:] / _DEVIATIONS[1:]
    evidence = float(told_apart - scaled @ scaled) / 2 - float(np.log(_DEVIATIONS[1:]).sum())
    return Trend(log_mean, design, covariance, evidence)
