"""A lognormal law of ``r = P / Π`` whose mean and spread vary smoothly with ln Π.

``a = ln E[r]`` and ``t = ln sd(ln r)`` are free at knots in ln Π, where random walks tie
neighbours, and linear in between. So the spread of frequent symbols, which can be measured, carries
over to rare ones, of which only sums over many cells tell anything. Both are fitted by maximum
a posteriori (damped scoring steps); the inverse of the information is their covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.groups import Groups
from flwr_kld.inference.estimators.score import Floats

_WALK = (1.0, 0.2)
"""Deviations of the walks of a and of t per unit of ln Π."""
_MEAN = ((0.0, 2.0), (-0.7, 1.5))
"""Centre and deviation of the average of a and of t over the knots."""
_REACH = ((-7.0, 9.0), (-2.6, 1.8))
"""Bounds of a and of t: a law cannot be narrower than the grid's spacing shows."""
_START = -0.7
_STEPS, _TRIES = 30, 8
_ENOUGH = 0.01
"""Gain in nats below which the fit has ended."""
_LEAST = float(np.finfo(np.float64).tiny)
"""Likelihood of what float64 says is impossible: a remainder far above its mass leads there."""


@dataclass(frozen=True, eq=False)
class Sums:
    """J sums over many symbols, each ``value = N Σ P(x) ± noise and Poisson``.

    Parameters
    ----------
    value : Floats
        Shape [J], in records.
    variance : Floats
        Shape [J], of the noise, in squared records.
    mass, mass_squared : Floats
        Shape [J, K]: Σ N Π and Σ (N Π)² over the symbols, shared out among knots by `hats`.
    """

    value: Floats
    variance: Floats
    mass: Floats
    mass_squared: Floats


def hats(log_mass: Floats, knots: Floats) -> Floats:
    """Weights that interpolate linearly between K knots, shape [len(log_mass), K]."""
    return np.stack([np.interp(log_mass, knots, unit) for unit in np.eye(len(knots))], axis=1)


class SmoothLaw:
    """The law, fitted when it is made.

    Parameters
    ----------
    grid : Floats
        Values of ln r, shape [U].
    knots : Floats
        ln of the records that Π expects of a symbol, ascending, shape [K], K >= 2.
    groups : Groups
        G groups of cells in B mass bins.
    rows : Floats
        Likelihood of each group under each ln r, shape [G, U].
    sums : Sums
        What is known besides.
    """

    def __init__(
        self, grid: Floats, knots: Floats, groups: Groups, rows: Floats, sums: Sums
    ) -> None:
        self._powers = grid[:, None] ** np.arange(5)
        self._ratio = np.exp(grid)
        self._groups, self._rows, self._sums = groups, rows, sums
        self._bins, self._knots = hats(groups.log_expected, knots), np.eye(len(knots))
        step = np.diff(self._knots, axis=0)
        tie = step.T @ (step / np.diff(knots)[:, None])
        self._ties = [
            tie / walk**2 + 1 / (deviation * len(knots)) ** 2
            for walk, (_, deviation) in zip(_WALK, _MEAN, strict=True)
        ]
        self._at = np.repeat([[0.0], [_START]], len(knots), axis=1)  # a and t, [2, K]
        self._information = self._fit()

    def posterior(self, f: Floats) -> tuple[Floats, Floats, Floats]:
        """Posterior mean and variance of f(ln r) in each group, [G]; slope of the mean, [G, 2].

        Parameters
        ----------
        f : Floats
            Shape [U]. The slope is in a and t of the group's own bin.
        """
        law, score = self._laws(self._bins)
        share = self._rows * law[self._groups.bin_of]
        powers = self._powers[:, :3]
        columns = np.concatenate([powers, f[:, None] * powers, f[:, None] ** 2], axis=1)
        moments = share @ columns
        moments /= np.maximum(moments[:, :1], _LEAST)
        mean = moments[:, 3]
        crossed = moments[:, 3:6] - mean[:, None] * moments[:, :3]
        slope = np.einsum("gtk,gk->gt", score[self._groups.bin_of], crossed)
        return mean, np.maximum(moments[:, 6] - mean**2, 0.0), slope

    def variance_of(self, slope: Floats) -> float:
        """Posterior variance of a number with this slope in each bin's a and t, shape [B, 2]."""
        at_knots = (slope.T @ self._bins).reshape(-1)
        return float(at_knots @ np.linalg.solve(self._information, at_knots))

    def _laws(self, where: Floats) -> tuple[Floats, Floats]:
        """Laws on the grid, [L, U]; d ln law / d(a, t) as weights of 1, u and u², [L, 2, 3].

        ``ln law = -(u - m)² / 2s² - ln Σ`` with ``s = e^t`` and ``m = a - s²/2``.
        """
        a, t = self._at @ where.T
        v = np.exp(2 * t)
        m = a - v / 2
        exponent = -0.5 * (self._powers[:, 1] - m[:, None]) ** 2 / v[:, None]
        law = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        one = np.ones_like(m)
        by_a = np.stack([-m / v, 1 / v, 0 * one], axis=1)
        by_t = np.stack([m + m**2 / v, -one - 2 * m / v, 1 / v], axis=1)
        score = np.stack([by_a, by_t], axis=1)
        score[:, :, 0] -= np.einsum("ltk,lk->lt", score, law @ self._powers[:, :3])
        return law, score

    def _cells(self) -> tuple[float, Floats, Floats]:
        """Log likelihood of the cells, its gradient [B, 2] and its information [B, 2, 2].

        Information is what r itself would tell of the law, less what the counts leave open of r.
        """
        groups = self._groups
        law, score = self._laws(self._bins)
        moments = (self._rows * law[groups.bin_of]) @ self._powers
        likelihood = np.maximum(moments[:, 0], _LEAST)
        value = float(groups.size @ np.log(likelihood))
        moments *= (groups.size / likelihood)[:, None]
        told = np.einsum("gtk,gk->gt", score[groups.bin_of], moments[:, :3])
        outer = told[:, :, None] * told[:, None, :] / groups.size[:, None, None]
        total = np.add.reduceat(moments, groups.starts, axis=0)
        law_moments = total[:, :1] * (law @ self._powers)
        square = np.add.outer(np.arange(3), np.arange(3))
        open_ = np.einsum("btk,bkl,bsl->bts", score, (law_moments - total)[:, square], score)
        values, axes = np.linalg.eigh(open_ + np.add.reduceat(outer, groups.starts, axis=0))
        information = (axes * np.maximum(values, 0)[:, None, :]) @ axes.swapaxes(1, 2)
        return value, np.add.reduceat(told, groups.starts, axis=0), information

    def _sum_variance(self) -> Floats:
        """Variance of the sums about the law's mean, shape [J]: noise, Poisson, spread of r."""
        law, _ = self._laws(self._knots)
        mean = law @ self._ratio
        sums = self._sums
        spread = sums.mass_squared @ (law @ self._ratio**2 - mean**2)
        # A record's worth at least: sums over nothing are exact.
        variance: Floats = np.maximum(sums.variance + sums.mass @ mean + spread, 1.0)
        return variance

    def _evaluate(self, sum_variance: Floats) -> tuple[float, Floats, Floats]:
        """Log posterior, its gradient [2, K] and its information [2, K, 2, K]."""
        value, slope, told = self._cells()
        gradient = slope.T @ self._bins
        information = np.einsum("bk,bij,bl->ikjl", self._bins, told, self._bins, optimize=True)
        for i, (tie, (centre, _)) in enumerate(zip(self._ties, _MEAN, strict=True)):
            away = self._at[i] - centre
            value -= 0.5 * float(away @ tie @ away)
            gradient[i] -= tie @ away
            information[i, :, i] += tie
        law, score = self._laws(self._knots)
        gap = self._sums.value - self._sums.mass @ (law @ self._ratio)
        moments = law @ (self._ratio[:, None] * self._powers[:, :3])
        moved = self._sums.mass[:, None, :] * np.einsum("ltk,lk->tl", score, moments)  # [J, 2, K]
        value -= 0.5 * float((gap**2 / sum_variance).sum())
        gradient += np.einsum("jtk,j->tk", moved, gap / sum_variance)
        information += np.einsum("jsk,jtl,j->sktl", moved, moved, 1 / sum_variance, optimize=True)
        return value, gradient, information

    def _fit(self) -> Floats:
        """Climb to the maximum; return the information there, [2K, 2K]."""
        size, damping = self._at.size, 0.01
        low, high = np.array(_REACH).T[:, :, None]
        for _ in range(_STEPS):
            start, sum_variance = self._at, self._sum_variance()
            value, slope, told = self._evaluate(sum_variance)
            free = ~(((start <= low) & (slope < 0)) | ((start >= high) & (slope > 0))).reshape(-1)
            information = told.reshape(size, size) * np.outer(free, free) + np.diag(1.0 - free)
            gain = 0.0
            for _ in range(_TRIES):
                damped = information + damping * np.diag(np.diag(information))
                step = np.linalg.solve(damped, slope.reshape(-1) * free).reshape(start.shape)
                self._at = np.clip(start + step / max(1.0, np.abs(step).max()), low, high)
                gain = self._evaluate(sum_variance)[0] - value
                if gain >= 0:
                    damping = max(damping / 5, 1e-4)
                    break
                damping *= 10
            if gain < 0:
                self._at = start
            if gain < _ENOUGH:
                break
        return information
