"""PRIEST-KLD's estimator with its signs put right, and the same plain reading of D_θ.

`posterior_ratios` errs far less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.inference.estimators.result import (
    Estimate,
    assemble,
    cohort_deviation,
    noise_deviation,
)
from flwr_kld.kernel.arguments import real

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts


def paper(counts: NoisyCounts, *, lam: float = 0.0, tau: float = 1e-6) -> Estimate:
    """Estimate plain KL(Π || P) by ``Σ w [λ (r - 1) - ln r]`` (PRIEST-KLD, Algorithms 1-3)."""
    # ``r = max(y / N, τ) / Π``. The paper's Algorithm 2 prints ``(A + B) / T``, which targets the
    # negative divergence. The clip at τ biases the number heavily where counts are small. Its
    # estimand is D_θ at θ = 0.
    lam, tau = real("lam", lam, least=0), real("tau", tau, above=0)
    plan, records = counts.plan, counts.records
    scored = plan.weight > 0
    mass, share = plan.mass[scored], counts.values[scored] / records
    ratio = np.maximum(share, tau) / mass
    # Noise does not move a clipped count, to first order.
    moves = np.where(share > tau, (lam - 1 / ratio) / (records * mass), 0.0)
    return assemble(
        plan,
        mean=lam * (ratio - 1) - np.log(ratio),
        sampling=cohort_deviation(plan, records, ratio, 0.0),
        privacy=noise_deviation(plan, moves**2 * counts.noise.variance),
    )
