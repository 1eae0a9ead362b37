"""Where a cohort's records lie, by empirical Bayes from its noised counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.inference.estimators.groups import group_cells
from flwr_kld.inference.estimators.likelihood import Likelihood
from flwr_kld.inference.estimators.mixture import Mixture, base_law
from flwr_kld.inference.estimators.score import Floats

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts

_STEPS = 12


def expected_shares(noisy: NoisyCounts, *, theta: float) -> Floats:
    """Posterior mean of P over the cells, shape [cells], summing to 1.

    The prior is the one of `posterior_counts`: the ratio ``r = P / Π`` is a mixture of narrow
    Gammas whose weights vary smoothly with ln Π. Unlike noisy frequencies, the mean of r shrinks
    towards what cells of like mass have in common, so a witness made of it does not follow noise.
    Cells that Π says are impossible keep their noisy count, or nothing.
    """
    plan, variance = noisy.plan, noisy.noise.variance
    possible = np.flatnonzero(plan.mass > 0)
    y, expected = noisy.values[possible], noisy.records * plan.mass[possible]
    groups = group_cells(y, expected, variance**0.5)
    likelihood = Likelihood(groups, noisy.noise, theta)
    rows = likelihood.rows(0.0)
    others = plan.cells - len(possible)
    total = min(noisy.records - float(noisy.values.sum() - y.sum()), noisy.records)
    mixture = Mixture(groups, base_law(likelihood.grid, rows, groups, total, others * variance))
    mixture.fit(rows, _STEPS)
    weights = rows * mixture.weights[groups.bin_of]
    ratio = weights[:, 1:] @ np.exp(likelihood.grid) / weights.sum(axis=1)
    shares = np.maximum(noisy.values, 0) / noisy.records
    shares[possible] = plan.mass[possible] * ratio[groups.of]
    normal: Floats = shares / shares.sum()
    return normal
