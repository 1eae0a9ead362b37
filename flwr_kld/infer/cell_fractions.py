"""Noisy counts as fractions of records, and groups of symbols as weights of cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.estimators.score import Floats, in_blocks


def noisy_fractions(noisy: NoisyCounts) -> Floats:
    """Return unbiased fractions of the cells, which sum to 1 and may be negative, shape [cells]."""
    share: Floats = noisy.values / noisy.records
    if noisy.total_is_known:  # and with it the sum of all noise: each cell bears its mean
        share -= (share.sum() - 1) / len(share)
    return share


def fraction_noise(noisy: NoisyCounts) -> float:
    """Return the variance that the noise gives to each of `noisy_fractions`."""
    variance = noisy.noise.variance / noisy.records**2
    return variance * (1 - 1 / noisy.plan.cells) if noisy.total_is_known else variance


def as_law(shares: Floats, otherwise: Floats) -> Floats:
    """Make fractions non-negative with sum 1, row by row; `otherwise` where nothing is left."""
    law: Floats = np.maximum(shares, 0.0)
    total = law.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        law, total = np.where(total > 0, law, otherwise), np.where(total > 0, total, 1)
    law /= total
    return law


def in_cells(plan: QueryPlan, groups: NDArray[np.bool_]) -> Floats:
    """Part of each cell that belongs to a group of symbols, shape [groups, cells]."""
    if (plan.symbols_in == 1).all():
        return np.asarray(groups[:, np.argsort(plan.cell_of)], dtype=np.float64)
    mass, p = plan.mass[plan.cell_of], plan.reference.probabilities
    part = np.where(mass > 0, p / np.where(mass > 0, mass, 1), 1 / plan.symbols_in[plan.cell_of])
    parts = np.empty((len(groups), plan.cells))
    for some in in_blocks(np.arange(len(groups)), len(part)):
        place = np.arange(len(some))[:, None] * plan.cells + plan.cell_of
        of_some = np.bincount(place.ravel(), (groups[some] * part).ravel(), len(some) * plan.cells)
        parts[some] = of_some.reshape(len(some), plan.cells)
    return parts
