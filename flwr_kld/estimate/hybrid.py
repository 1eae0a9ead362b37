"""Empirical Bayes for the population that the cohort was drawn from.

1. Each symbol's ratio ``r = P / Π`` is lognormal; its mean and spread vary smoothly with ln Π
   (`smooth_law`) and are fitted to the noisy counts.
2. Besides the single counts: remainders of tail bins tell ΣP over symbols that were not asked, and
   N is known, so ``E_Π[r]`` is 1 less what fell where Π is 0.
3. Estimate: Σ w E[φ(r) | y]; a count that tells r better than the grid does is read as it is, less
   its second-order bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.estimate.groups import group_cells
from flwr_kld.estimate.likelihood import Likelihood
from flwr_kld.estimate.result import Estimate, assemble
from flwr_kld.estimate.score import Floats, check_theta, score, score_slope
from flwr_kld.estimate.smooth_law import SmoothLaw, Sums, hats
from flwr_kld.privacy.event import Adjacency

if TYPE_CHECKING:
    from flwr_kld.counts import NoisyCounts

NAME = "hybrid"
_SPACING = 0.1
_KNOT_DISTANCE = 1.0


def hybrid(counts: NoisyCounts, *, theta: float = 0.01) -> Estimate:
    check_theta(theta)
    plan, variance, n = counts.plan, counts.noise.variance, counts.records
    scored = np.flatnonzero(plan.weight > 0)
    weight = plan.weight[scored]
    y = counts.values[scored]
    expected = n * plan.mass[scored]
    relative = (y + variance) / np.maximum(y, 1.0) ** 2
    direct = (y > 0) & (relative < _SPACING**2)
    groups = group_cells(y, expected, variance**0.5)
    likelihood = Likelihood(groups, counts.noise, theta, _SPACING)
    p = plan.reference.probabilities
    log_all = np.log(n * p[p > 0])
    low, high = log_all.min(), log_all.max()
    knots = np.linspace(low - 1e-9, high + 1e-9, 2 + int((high - low) / _KNOT_DISTANCE))
    sums = _sums(counts, scored[direct], knots)
    law = SmoothLaw(likelihood.grid, knots, groups, likelihood.rows(0.0)[:, 1:], sums)
    phi = score(np.exp(likelihood.grid), theta)
    columns = np.stack([phi, phi**2, np.exp(likelihood.grid)], axis=1)
    post, slopes = law.posterior(columns)
    prior = law.prior(columns)
    left = np.maximum(post[:, 1] - post[:, 0] ** 2, 0)
    of = groups.of
    ratio = np.where(direct, y / expected, post[of, 2])
    slope = score_slope(ratio, theta)
    by_count = ratio / expected + variance / expected**2
    mean = np.where(direct, score(ratio, theta) - 0.5 * slope**2 * by_count, post[of, 0])
    known = np.clip(1 - left / np.maximum(prior[:, 1] - prior[:, 0] ** 2, 1e-12), 0, 1)
    spread = np.where(direct, slope**2 * by_count, (left * known)[of])
    by_noise = variance / (variance + np.maximum(ratio * expected, 1e-9))
    out = [_scatter(x, scored, plan.cells) for x in (mean, spread * by_noise, ratio)]
    est = assemble(
        plan, n, theta=theta, estimator=NAME, target="population",
        mean=out[0], variance=out[1], ratio=out[2],
    )
    of_bin = groups.bin_of[of]
    w = np.where(direct, 0.0, weight)
    bins = np.stack([np.bincount(of_bin, w * slopes[of, 0, t], len(groups.log_expected)) for t in (0, 1)], 1)
    est.__dict__["hyper"] = law.deviation_of(bins)
    est.__dict__["law"] = law
    return est


def _scatter(values, at, cells):
    out = np.zeros(cells)
    out[at] = values
    return out


def _sums(counts, direct, knots) -> Sums:
    plan, n, variance = counts.plan, counts.records, counts.noise.variance
    p = plan.reference.probabilities
    possible = p > 0
    at = np.minimum(((np.log(np.maximum(n * p, 1e-300)) - knots[0]) / (knots[1] - knots[0])), len(knots) - 1 - 1e-9)
    i = np.maximum(at.astype(np.int64), 0)
    frac = at - i
    k = len(knots)

    def by_cell(m):
        flat = np.bincount(plan.cell_of * k + i, m * (1 - frac), plan.cells * k)
        flat = flat + np.bincount(plan.cell_of * k + np.minimum(i + 1, k - 1), m * frac, plan.cells * k)
        return flat.reshape(plan.cells, k)

    mass, mass2 = by_cell(np.where(possible, n * p, 0)), by_cell(np.where(possible, (n * p) ** 2, 0))
    impure = np.bincount(plan.cell_of, ~possible, plan.cells) > 0
    rest = (plan.weight == 0) & ~impure
    read = (plan.weight == 0) & impure
    read[direct] = True
    y = counts.values
    uncertain = float(read.sum())
    if counts.event.adjacency is not Adjacency.REPLACE_ONE:
        uncertain += plan.cells
    value = np.append(y[rest].astype(float), n - y[read].sum())
    return Sums(
        value,
        np.append(np.full(rest.sum(), variance), uncertain * variance),
        np.concatenate([mass[rest], mass[~read].sum(0, keepdims=True)]),
        np.concatenate([mass2[rest], mass2[~read].sum(0, keepdims=True)]),
    )
