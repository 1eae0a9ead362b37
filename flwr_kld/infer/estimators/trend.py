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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

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
    noise: float  # Variance of the noise in each of them
    singles: int  # S

    @property
    def rest(self) -> Counted:
        """The counts of many symbols together."""
        return replace(
            self,
            value=self.value[self.singles :],
            expected=self.expected[self.singles :],
            log_symbol=self.log_symbol[self.singles :],
            crowding=self.crowding[self.singles :],
            singles=0,
        )


@dataclass(frozen=True, eq=False)
class Trend:
    """The fitted trend."""

    log_mean: Floats  # a of each count, shape [J]
    design: Floats  # Slope of a in the coefficients, shape [J, coefficients]
    covariance: Floats  # Of the coefficients, shape [coefficients, coefficients]
    # What its slope and bends cost, in nats (Occam's factor): a trend is a choice among many
    evidence: float


def fit_trends(columns: Sequence[Counted]) -> list[Trend | None]:
    """Fit each column's trend, those of equal shape together; None of counts nobody can have."""
    found: list[Trend | None] = [None] * len(columns)
    alike: dict[tuple[int, int], list[int]] = {}
    for i, one in enumerate(columns):
        alike.setdefault((len(one.value), one.singles), []).append(i)
    for which in alike.values():
        for i, trend in zip(which, _together([columns[i] for i in which]), strict=True):
            found[i] = trend
    return found


def _together(columns: Sequence[Counted]) -> list[Trend | None]:
    try:
        return [*_fitted(columns)]
    except np.linalg.LinAlgError:  # of one of them
        if len(columns) == 1:
            return [None]
        return [trend for one in columns for trend in _together([one])]


def _fitted(columns: Sequence[Counted]) -> Iterator[Trend]:
    """Fit trends by Fisher scoring."""
    # Shapes: of each array the first axis is of the columns.
    singles = columns[0].singles
    y, expected, log_symbol, crowding = np.array(
        [[one.value, one.expected, one.log_symbol, one.crowding] for one in columns]
    ).swapaxes(0, 1)
    total, total_variance, effect, noise = np.array(
        [(one.total, one.total_variance, one.design_effect, one.noise) for one in columns]
    ).T[..., None]
    share = expected / expected.sum(axis=1, keepdims=True)
    x = log_symbol - (share * log_symbol).sum(axis=1, keepdims=True)
    x = x / np.maximum(np.sqrt((share * x**2).sum(axis=1, keepdims=True)), 1.0)
    bends = np.quantile(x[:, :singles] if singles else x, _BENDS, axis=1).T
    bent = np.maximum(bends[:, None] - x[..., None], 0)
    design = np.concatenate([np.ones_like(x)[..., None], x[..., None], bent], axis=2)
    precision = np.diag(_DEVIATIONS**-2.0)
    at, spread = np.zeros((len(x), len(_DEVIATIONS))), np.zeros((len(x), 1))
    told = np.tile(precision, (len(x), 1, 1))
    for _ in range(_STEPS):
        mean = expected * np.exp(np.clip((design @ at[..., None])[..., 0], -_MOST, _MOST))
        by_chance = effect * mean + noise
        variance = by_chance + spread * crowding * mean**2
        slope = np.einsum("cjd,cj->cd", design, mean * (y - mean) / variance) - at @ precision
        told = (design * (mean**2 / variance)[..., None]).swapaxes(1, 2) @ design + precision
        # The single symbols' sum is known more finely than the sum of their noisy counts.
        single = mean[:, :singles]
        known = total_variance + spread * (single**2).sum(axis=1, keepdims=True)
        known += np.maximum(1.0, _FINEST * total) ** 2
        moved = np.einsum("cj,cjd->cd", single, design[:, :singles])
        slope += moved * (total - single.sum(axis=1, keepdims=True)) / known
        told += moved[:, :, None] * (moved / known)[:, None]
        step = np.linalg.solve(told, slope[..., None])[..., 0]
        at = at + step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True))
        weight = crowding * (mean / variance) ** 2
        excess = (weight * ((y - mean) ** 2 - by_chance)).sum(axis=1, keepdims=True)
        spread = np.fmax(excess / (weight * crowding * mean**2).sum(axis=1, keepdims=True), 0.0)
    log_means = np.clip((design @ at[..., None])[..., 0], -_MOST, _MOST)
    covariances = np.linalg.inv(told)
    told_apart = np.linalg.slogdet(covariances[:, 1:, 1:])[1]
    scaled = at[:, 1:] / _DEVIATIONS[1:]
    evidence = (told_apart - (scaled**2).sum(axis=1)) / 2 - np.log(_DEVIATIONS[1:]).sum()
    return map(Trend, log_means, design, covariances, evidence.tolist())
