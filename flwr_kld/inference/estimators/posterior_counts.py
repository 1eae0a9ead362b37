"""The default estimator: empirical Bayes for the cohort's actual counts.

1. Prior: a symbol's ratio r = P/Π is a mixture of narrow Gammas and of 'never seen'; weights vary
   smoothly with ln Π and are fitted to the noisy counts by a short EM (`mixture`).
2. Noise is known exactly, so P(h | y) is known for every count (`likelihood`).
3. All cells together hold N records, so N minus the cells that are not scored tells the sum of
   those that are, with the noise of few cells instead of all. Conditioning on that sum tilts each
   P(h | y) by e^(tilt h), one tilt for all cells (saddle point).
4. Estimate: Σ w E[φ(h / (N Π)) | y].
5. Its spread takes the fitted prior as known, and is no error where that decides: under wide noise
   a symbol that vanished looks like one that did not. What the noise leaves open over many laws,
   the noise's part of the deviation of `posterior_ratios`, is stated where it is larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.groups import Groups, group_cells
from flwr_kld.inference.estimators.likelihood import Likelihood
from flwr_kld.inference.estimators.mixture import Mixture, base_law
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.result import (
    Estimate,
    assemble,
    cohort_deviation,
    noise_deviation,
)
from flwr_kld.inference.estimators.score import THETA, Floats, check_theta, score, score_slope

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts

_STEPS, _TILTS = 12, 8
_CLOSE = 0.05
"""Standard deviations of the sum within which it is what it should be."""
_LARGEST_TILT = 0.5
"""In units of one over the noise's deviation."""


def posterior_counts(counts: NoisyCounts, *, theta: float = THETA) -> Estimate:
    """Estimate D_θ of this cohort by posterior means of its counts' scores."""
    theta = check_theta(theta)
    plan, variance = counts.plan, counts.noise.variance
    scored = np.flatnonzero(plan.weight > 0)
    y = counts.values[scored]
    expected = counts.records * plan.mass[scored]
    likelihood, total, total_variance = _seen(counts, scored, theta)
    groups = likelihood.groups
    prior, tilt = _fit(likelihood, groups, total, total_variance)
    count = likelihood.counts(prior, tilt)[0][groups.of]
    mean, spread = (of_group[groups.of] for of_group in likelihood.scores(prior, tilt))
    sharp = groups.sharp[groups.of]
    # A count far above the noise is read as it is, with its own mass and not its bin's.
    ratio = np.where(sharp, y, count) / expected
    mean = np.where(sharp, score(np.where(sharp, ratio, 1.0), theta), mean)
    by_noise = score_slope(np.where(sharp, ratio, 1.0), theta) ** 2 * variance / expected**2
    return assemble(
        plan,
        mean=mean,
        sampling=cohort_deviation(plan, counts.records, ratio, theta),
        privacy=max(
            noise_deviation(plan, np.where(sharp, by_noise, spread)),
            posterior_ratios(counts, theta=theta).error.privacy,
        ),
    )


def _seen(
    counts: NoisyCounts, at: NDArray[np.int64], theta: float
) -> tuple[Likelihood, float, float]:
    """Likelihood of some cells' counts, and their sum as the other cells tell it, with variance."""
    plan, y, variance = counts.plan, counts.values[at], counts.noise.variance
    groups = group_cells(y, counts.records * plan.mass[at], variance**0.5)
    total = min(counts.records - float(counts.values.sum() - y.sum()), counts.records)
    likelihood = Likelihood(groups, counts.noise, theta)
    return likelihood, total, (plan.cells - len(at)) * variance


def _fit(
    likelihood: Likelihood, groups: Groups, total: float, total_variance: float
) -> tuple[Floats, float]:
    """Prior weights [B, U + 1] and the tilt that makes the counts add up to `total`."""
    # The tilt is the root of ``total - Σ E[h | y, tilt] - tilt Var(total)``, which falls. For each
    # tilt the prior is fitted anew, from the same weights, and follows it: the counts then move
    # further than their spread says, so secant steps within a bracket are taken, not Newton's.
    rows = likelihood.rows(0.0)
    mixture = Mixture(groups, base_law(likelihood.grid, rows, groups, total, total_variance))
    mixture.fit(rows, _STEPS)
    if groups.sharp.all() or likelihood.noise_variance == 0:
        return mixture.weights, 0.0
    high = _LARGEST_TILT / likelihood.noise_variance**0.5
    low, untilted, tilt, before = -high, mixture.weights, 0.0, None
    for _ in range(_TILTS):
        count, spread = likelihood.counts(mixture.weights, tilt)
        gap = total - groups.size @ count - tilt * total_variance
        slope = groups.size @ spread + total_variance + 1e-12
        if abs(gap) <= _CLOSE * slope**0.5:
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        if before:
            slope = max(slope, (before[1] - gap) / (tilt - before[0]))
        before, tilt = (tilt, gap), float(np.clip(tilt + gap / slope, low, high))
        if tilt == before[0]:  # the largest
            break
        mixture.weights = untilted
        mixture.fit(likelihood.rows(tilt), _STEPS)
    return mixture.weights, tilt


def expected_shares(noisy: NoisyCounts, *, theta: float) -> Floats:
    """Posterior mean of P under the prior of `posterior_counts`, shape [cells], summing to 1."""
    # The prior is the one of `posterior_counts`: the ratio ``r = P / Π`` is a mixture of narrow
    # Gammas whose weights vary smoothly with ln Π. Unlike noisy frequencies, the mean of r shrinks
    # towards what cells of like mass have in common.
    # Cells that Π says are impossible keep their noisy count, or nothing.
    plan = noisy.plan
    possible = np.flatnonzero(plan.mass > 0)
    likelihood, total, total_variance = _seen(noisy, possible, theta)
    groups, rows = likelihood.groups, likelihood.rows(0.0)
    mixture = Mixture(groups, base_law(likelihood.grid, rows, groups, total, total_variance))
    mixture.fit(rows, _STEPS)
    weights = rows * mixture.weights[groups.bin_of]
    ratio = weights[:, 1:] @ np.exp(likelihood.grid) / weights.sum(axis=1)
    shares = np.maximum(noisy.values, 0) / noisy.records
    shares[possible] = plan.mass[possible] * ratio[groups.of]
    normal: Floats = shares / shares.sum()
    return normal
