"""Empirical Bayes for the population that the cohort was drawn from.

1. A symbol's ratio ``r = P / Π`` is lognormal, with mean and spread smooth in ln Π (`smooth_law`),
   fitted to the noisy counts (`likelihood`), each Poisson around ``N Π r``.
2. Counted remainders tell Σ P over symbols that were not asked, and the known N tells it over all.
3. Estimate: Σ w E[φ(r) | y]. A count that tells r more finely than the grid is read as it is, less
   the second-order bias of φ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.groups import group_cells
from flwr_kld.inference.estimators.likelihood import Likelihood
from flwr_kld.inference.estimators.result import Estimate, assemble
from flwr_kld.inference.estimators.score import Floats, check_theta, score, score_slope
from flwr_kld.inference.estimators.smooth_law import SmoothLaw, Sums, hats
from flwr_kld.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts

NAME = "hybrid"
_SPACING = 0.1
"""Of the grid of ln r. Counts whose relative deviation is less are read as they are."""
_KNOT_DISTANCE = 1.0
"""In ln Π, at most."""
_MARGIN = 0.01
"""Of the knots beyond Π's range, so that a uniform Π has a range too."""


def hybrid(counts: NoisyCounts, *, theta: float = 0.01) -> Estimate:
    """Estimate D_θ of the population, which an undrifted cohort of any size reads as about 0.

    Finite at θ = 0 too: a lognormal ratio is never 0.

    Parameters
    ----------
    counts : NoisyCounts
        Noisy counts, the law of their noise, and the plan.
    theta : float
        In [0, 1).

    Raises
    ------
    ValueError
        If theta is out of range.
    """
    theta = check_theta(theta)
    plan, noise = counts.plan, counts.noise.variance
    scored = np.flatnonzero(plan.weight > 0)
    y, weight = counts.values[scored], plan.weight[scored]
    expected = counts.records * plan.mass[scored]
    direct = (y > 0) & (y + noise < (_SPACING * y) ** 2)
    groups = group_cells(y, expected, math.sqrt(noise))
    likelihood = Likelihood(groups, counts.noise, theta, _SPACING)
    possible = plan.reference.probabilities[plan.reference.probabilities > 0]
    low = math.log(counts.records * possible.min()) - _MARGIN
    high = math.log(counts.records * possible.max()) + _MARGIN
    knots = np.linspace(low, high, 2 + int((high - low) / _KNOT_DISTANCE))
    rows = likelihood.rows(0.0)[:, 1:]
    law = SmoothLaw(likelihood.grid, knots, groups, rows, _sums(counts, scored[direct], knots))

    r = np.exp(likelihood.grid)
    ratio = np.where(direct, y / expected, law.posterior(r)[0][groups.of])
    posterior_mean, posterior_variance, slope = law.posterior(score(r, theta))
    # φ'' = φ'², and a count of mean N Π r has variance N Π r + noise.
    second = score_slope(ratio, theta) ** 2 * (ratio * expected + noise) / expected**2
    mean, variance = np.zeros(plan.cells), np.where(direct, second, posterior_variance[groups.of])
    mean[scored] = np.where(direct, score(ratio, theta) - second / 2, posterior_mean[groups.of])
    by_bin = np.zeros((len(groups.log_expected), 2))
    np.add.at(by_bin, groups.bin_of, np.bincount(groups.of, weight * ~direct)[:, None] * slope)
    # Poisson and noise answer for the error in proportion to their variance in the counts.
    share = noise / (noise + ratio * expected)
    by_law = law.variance_of(by_bin)
    privacy = weight**2 @ (variance * share) + by_law * (weight @ share) / weight.sum()
    total = weight**2 @ variance + by_law
    return assemble(
        plan,
        theta=theta,
        estimator=NAME,
        target="population",
        mean=mean,
        sampling=math.sqrt(max(total - privacy, 0.0)),
        privacy=math.sqrt(privacy),
    )


def _sums(counts: NoisyCounts, direct: NDArray[np.int64], knots: Floats) -> Sums:
    """Sum of each remainder cell, and what N leaves for all cells but those that are read off.

    Read off are `direct` cells, and unscored ones with symbols that are impossible under Π.
    """
    plan, noise, y = counts.plan, counts.noise.variance, counts.values
    mass = counts.records * plan.reference.probabilities
    impossible = np.bincount(plan.cell_of, mass == 0, plan.cells) > 0
    read = impossible.copy()
    read[direct] = True
    remainder = np.flatnonzero((plan.weight == 0) & ~impossible)
    row = np.full(plan.cells, len(remainder))
    row[remainder] = np.arange(len(remainder))
    row[read] = len(remainder) + 1
    row_of = row[plan.cell_of]
    near = hats(np.log(np.maximum(mass, np.exp(knots[0]))), knots)
    sums, squares = np.zeros((2, len(remainder) + 1, len(knots)))
    for k, hat in enumerate(near.T):
        for total, m in ((sums, mass), (squares, mass**2)):
            total[:, k] = np.bincount(row_of, m * hat, len(remainder) + 2)[:-1]
    sums[-1], squares[-1] = sums.sum(axis=0), squares.sum(axis=0)
    # A total that is itself the sum of the noisy cells tells nothing of their noise.
    exact = counts.event.guarantee.adjacency is Adjacency.REPLACE_ONE
    terms = np.ones(len(remainder) + 1)
    terms[-1] = read.sum() + (0 if exact else plan.cells)
    value = np.append(y[remainder].astype(np.float64), counts.records - y[read].sum())
    return Sums(value, terms * noise, sums, squares)
