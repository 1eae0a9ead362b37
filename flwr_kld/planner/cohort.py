"""Cohorts that nobody has asked: what a check would publish, drawn from a known law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.kernel.release import Release
from flwr_kld.planner.drift import Law
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import QueryPlan


def draw_cohorts(
    law: Law, records: int, design_effect: float, number: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw counts of cohorts of clustered records, shape [number, len(law)].

    Dirichlet-multinomial: counts have the multinomial's variance times the design effect
    ``(N + A) / (1 + A)``, A the concentration.
    """
    laws = np.tile(law, (number, 1))
    if design_effect > 1:
        laws = generator.standard_gamma((records - design_effect) / (design_effect - 1) * laws)
        laws /= laws.sum(axis=1, keepdims=True)
    return generator.multinomial(records, laws)


def published(
    counts: NDArray[np.int64], plan: QueryPlan, event: Release, bits: BitSource
) -> NoisyCounts:
    """Noise counts, shape [plan.length], as a release does."""
    noisy = counts + sample(event.noise, len(counts), bits)
    exact = event.guarantee.adjacency is Adjacency.REPLACE_ONE
    records = float((counts if exact else noisy).sum())
    return NoisyCounts(noisy, max(records, 1.0), event, plan, bits.private)
