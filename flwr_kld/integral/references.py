"""Public references made from private data: post-processing of what has been paid for.

Two ways. Draws of a `Sampler` protect everybody at once, but all together carry at most their total
epsilon in nats: they are exemplars, and a reference mixed of many is nearly the base. A noised
histogram of a federation protects one record (or client) and makes the better whole reference.
`recommend` says which one serves.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import real
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.integral.denoise import denoised_shares
from flwr_kld.reference import Reference

_CLEAR = 6.0
"""Noise deviations that an unlisted symbol's count must reach to be believed: by chance, discrete
Laplace does with a probability of about 1e-4."""


def reference_from_draws(
    base: Reference, draws: NDArray[np.int64], *, weight: float = 0.5
) -> Reference:
    """Mix a public reference with the shares of private draws.

    Parameters
    ----------
    base : Reference
        Q0, over the domain that the draws are symbols of.
    draws : NDArray[np.int64]
        What `Sampler.draw` returned, shape [k].
    weight : float
        Of the draws, in [0, 1); `recommend` proposes one.

    Raises
    ------
    ValueError
        If the weight is out of range or the draws are not symbols of the domain.
    """
    weight = real("weight", weight, least=0, below=1)
    size = base.domain.size
    if draws.ndim != 1 or not len(draws) or draws.min() < 0 or draws.max() >= size:
        raise ValueError(f"draws must be one or more symbols in 0..{size - 1}")
    shares = np.bincount(draws, minlength=size) / len(draws)
    return Reference(base.domain, (1 - weight) * base.probabilities + weight * shares)


def reference_from_counts(counts: NoisyCounts) -> Reference:
    """Make a reference of a federation's noised histogram.

    Ask for it with a plan that gives every symbol its cell, such as
    ``Partition(domain.size).draw(Reference.from_counts(domain, np.ones(domain.size)), generator)``;
    symbols that share a cell keep the proportions of the plan's own reference.

    Parameters
    ----------
    counts : NoisyCounts
        Public counts of one query.

    Returns
    -------
    Reference
        Over the plan's domain; every listed symbol is possible unless the plan's reference rules it
        out in a shared cell. 'Other' and 'missing' ones are where they stand out of the noise: else
        they have no mass, so that checks see records of theirs as outside the reference.
    """
    plan = counts.plan
    shares = denoised_shares(counts.values, counts.noise)
    prior, ways = plan.reference.probabilities, plan.reference.domain.unlisted_way()
    unlisted = np.bincount(plan.cell_of, ways < 0, plan.cells) == 0
    shares[unlisted & (counts.values < _CLEAR * math.sqrt(counts.noise.variance))] = 0
    shares /= shares.sum()
    empty = plan.mass[plan.cell_of] == 0  # a cell that the reference says is impossible
    within = np.where(empty, 1.0, prior)
    of_cell = np.bincount(plan.cell_of, within, plan.cells)
    return Reference(plan.reference.domain, (shares / of_cell)[plan.cell_of] * within)
