"""A lognormal law of ``r = P / Π`` whose mean and spread vary smoothly with ln Π.

At knots in ln Π, ``ln E[r]`` and ``ln sd(ln r)`` are free and random walks tie neighbours; between
knots they are linear. The spread of frequent symbols, which is measured, so carries over to rare
ones, whose mean only sums of many cells can tell. Maximum a posteriori by scoring steps: the outer
product of the score stands for the Hessian, its inverse is the covariance of what is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.estimate.groups import Groups
from flwr_kld.estimate.score import Floats

_WALK = (0.7, 0.35)
"""Deviations per unit of ln Π of the walks of ln E[r] and of ln sd(ln r)."""
_PRIOR = ((0.0, 2.0), (-0.7, 1.5))
"""Centre and deviation of their average."""
_REACH = ((-7.0, 5.0), (-2.6, 1.4))
"""Bounds of both; the spread cannot be finer than the components of the likelihood."""
_STEPS = 25
_HALVINGS = 6
_ENOUGH = 1e-3


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of many counts, each known by itself: value ± noise = N Σ P(x) over its symbols.

    Parameters
    ----------
    value, variance : Floats
        Shape [J], in records and squared records; the variance without that of r.
    mass, mass_squared : Floats
        Shape [J, K]: Σ N Π and Σ (N Π)² of the symbols near each knot.
    """

    value: Floats
    variance: Floats
    mass: Floats
    mass_squared: Floats


def hats(log_mass: Floats, knots: Floats) -> Floats:
    """Weights that interpolate linearly between knots, shape [len(log_mass), K]."""
    return np.stack([np.interp(log_mass, knots, unit) for unit in np.eye(len(knots))], axis=1)


class SmoothLaw:
    """The fitted law. Parameters are ``ln E[r]`` at K knots, then ``ln sd(ln r)`` at them.

    Parameters
    ----------
    grid : Floats
        Values of ln r, shape [U].
    knots : Floats
        ln of the expected records of a symbol, ascending, shape [K].
    groups : Groups
        G groups of cells in B mass bins.
    rows : Floats
        Likelihood of each group under each ln r, shape [G, U].
    sums : Sums
        What else is known.
    """

    def __init__(
        self, grid: Floats, knots: Floats, groups: Groups, rows: Floats, sums: Sums
    ) -> None:
        self.grid, self.knots, self.groups, self.rows, self.sums = grid, knots, groups, rows, sums
        self._at = hats(groups.log_expected, knots)
        step = np.diff(np.eye(len(knots)), axis=0)
        self._ties = [
            step.T @ (step / (walk**2 * np.diff(knots)[:, None])) + 1 / (sd**2 * len(knots) ** 2)
            for walk, (_, sd) in zip(_WALK, _PRIOR, strict=True)
        ]
        self._limits = np.repeat(np.array(_REACH), len(knots), axis=0).T
        self.parameters: Floats = np.repeat([0.0, -0.7], len(knots))
        self._fit()

    def posterior(self, columns: Floats) -> tuple[Floats, Floats]:
        """Posterior mean of functions of ln r in each group, and their slopes in the parameters.

        Parameters
        ----------
        columns : Floats
            Shape [U, F].

        Returns
        -------
        tuple[Floats, Floats]
            Shapes [G, F] and [G, F, 2]: slopes in the mass bin's own two parameters.
        """
        law, statistics = self._laws(self._at)
        share = self.rows * law[self.groups.bin_of]
        share /= share.sum(axis=1, keepdims=True)
        moments = share @ np.concatenate([columns, _powers(self.grid)], axis=1)
        f = columns.shape[1]
        mean, powers = moments[:, :f], moments[:, f:]
        statistic = np.einsum("gtk,gk->gt", statistics[self.groups.bin_of], powers)
        slopes = np.empty((*mean.shape, 2))
        for i in range(f):
            crossed = share @ (columns[:, i, None] * _powers(self.grid))
            cross = np.einsum("gtk,gk->gt", statistics[self.groups.bin_of], crossed)
            slopes[:, i] = cross - mean[:, i, None] * statistic
        return mean, slopes

    def prior(self, columns: Floats) -> Floats:
        """Mean of functions of ln r under each group's law, shape [G, F]; columns [U, F]."""
        return (self._laws(self._at)[0] @ columns)[self.groups.bin_of]

    def deviation_of(self, slopes: Floats) -> Floats:
        """Standard deviation of a number with these slopes in the bins' parameters, [B, 2]."""
        whole = np.concatenate([self._at.T @ slopes[:, 0], self._at.T @ slopes[:, 1]])
        return np.sqrt(whole @ np.linalg.solve(self._information, whole))

    def _laws(self, at: Floats) -> tuple[Floats, Floats]:
        """Laws on the grid [L, U]; the score in both parameters as weights of 1, u, u² [L, 2, 3].

        ``ln law = -(u - m)² / 2s² - ln Σ``, with ``m = a - s²/2`` for mean ratio e^a.
        """
        a, tau = (at @ part for part in np.split(self.parameters, 2))
        variance = np.exp(2 * tau)
        m = a - variance / 2
        law = np.exp(-0.5 * (self.grid - m[:, None]) ** 2 / variance[:, None])
        law /= law.sum(axis=1, keepdims=True)
        one = np.ones_like(m)
        raw = np.stack(
            [
                np.stack([-m, one, 0 * m], 1) / variance[:, None],
                np.stack([m + m**2 / variance, -one - 2 * m / variance, one / variance], 1),
            ],
            axis=1,
        )
        raw[:, :, 0] -= np.einsum("ltk,lk->lt", raw, law @ _powers(self.grid))
        return law, raw

    def _evaluate(self) -> tuple[float, Floats, Floats]:
        """Log posterior, its gradient [2K] and its information [2K, 2K]."""
        knots, groups = len(self.knots), self.groups
        law, statistics = self._laws(self._at)
        share = self.rows * law[groups.bin_of]
        moments = share @ _powers(self.grid)
        value = float(groups.size @ np.log(moments[:, 0]))
        score = np.einsum("gtk,gk->gt", statistics[groups.bin_of], moments / moments[:, :1])
        in_bin = np.add.reduceat(groups.size[:, None] * score, groups.starts, axis=0)
        gradient = (self._at.T @ in_bin).T
        information = np.zeros((2, knots, 2, knots))
        for i in range(2):
            for j in range(2):
                product = groups.size * score[:, i] * score[:, j]
                weight = np.add.reduceat(product, groups.starts)
                information[i, :, j] = self._at.T @ (weight[:, None] * self._at)
        for i, (part, tie) in enumerate(
            zip(np.split(self.parameters, 2), self._ties, strict=True)
        ):
            away = part - _PRIOR[i][0]
            value -= 0.5 * float(away @ tie @ away)
            gradient[i] -= tie @ away
            information[i, :, i] += tie
        # Sums of many symbols, at the knots' laws.
        law, statistics = self._laws(np.eye(knots))
        r = np.exp(self.grid)
        ratio, square = law @ r, law @ r**2
        slope = np.einsum("ltk,lk->tl", statistics, law @ (r[:, None] * _powers(self.grid)))
        s = self.sums
        gap = s.value - s.mass @ ratio
        if self._sum_variance is None:
            self._sum_variance = s.variance + s.mass_squared @ (square - ratio**2)
            self._sum_variance = self._sum_variance + np.maximum(s.mass @ ratio, 0)
        value -= 0.5 * float((gap**2 / self._sum_variance).sum())
        tilt = s.mass[:, None, :] * slope  # [J, 2, K]
        gradient += np.einsum("jtk,j->tk", tilt, gap / self._sum_variance)
        information += np.einsum("jsk,jtl,j->sktl", tilt, tilt, 1 / self._sum_variance)
        return value, gradient.reshape(-1), information.reshape(2 * knots, 2 * knots)

    def _fit(self) -> None:
        for _ in range(_STEPS):
            self._sum_variance: Floats | None = None
            value, gradient, information = self._evaluate()
            self._information = information
            start = self.parameters
            step = np.linalg.solve(information, gradient)
            step /= max(1.0, np.abs(step).max())
            for _ in range(_HALVINGS):
                self.parameters = np.clip(start + step, *self._limits)
                if self._evaluate()[0] >= value:
                    break
                step /= 3
            else:
                self.parameters = start
                return
            if np.abs(self.parameters - start).max() < _ENOUGH:
                return


def _powers(grid: Floats) -> Floats:
    return np.stack([np.ones_like(grid), grid, grid**2], axis=1)
