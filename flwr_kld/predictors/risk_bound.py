"""What the Bayesian mixture loses in total, against knowing the true hypothesis.

If hypothesis j is true, reports are drawn by its design and the mixture predicts before each of
them (uniform prior, no share), then for every T

    E Σ_{t=1}^T KL(f_j || p_t)  <=  Σ_{i≠j} min(½ KL(f_j || f_i), 1) / (1 - BC_ij),

with BC_ij the Bhattacharyya coefficient of one report. The paper's bounds grow as √T. With fixed
share the loss goes on, and is bounded for the rounds so far.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import numpy as np

from flwr_kld.kernel.arguments import whole
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.laws import Floats

_SETTLED = 1e-12
"""Relative change of all odds at which later rounds lose what this one does."""


def kl_risk_bound(design: Design, *, batch: int = 1) -> Floats:
    """Bound the cumulative KL-risk for each true hypothesis, however long; without share."""
    price, decay = _prices(design, batch), design.affinities**batch
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(price == 0, 0.0, batch * price / (1 - decay))
    return np.asarray(terms.sum(axis=1))


def shared_risk_bound(
    design: Design, *, batch: int, rounds: int, share: float, prior: Floats
) -> Floats:
    """Bound the KL-risk of some rounds for each true hypothesis, with fixed share."""
    price, decay = _prices(design, batch), design.affinities**batch
    np.fill_diagonal(decay, 0)  # no rival of itself
    leak = np.sqrt(share * prior / (1 - share))
    with np.errstate(divide="ignore"):
        least = -np.log(share * prior)[:, None]  # a share leaves j that much, in nats
    ceilings = np.minimum(-np.log(prior)[:, None] - np.arange(rounds) * np.log1p(-share), least)
    odds, total = np.sqrt(prior / prior[:, None]), np.zeros(len(prior))  # E √odds of i against j
    for over, ceiling in enumerate(ceilings.T, start=1):
        lost = (price * odds).sum(axis=1)
        total += batch * np.minimum(lost, ceiling)
        told = decay * odds
        leaked = leak * (1 + told.sum(axis=1, keepdims=True))
        before, odds = odds, np.minimum(told + leaked, np.exp(least / 2))
        if (np.abs(odds - before) <= _SETTLED * odds).all():
            later = np.minimum(lost[:, None], ceilings[:, over:]).sum(axis=1)
            return np.asarray(total + batch * later)
    return total


def _prices(design: Design, batch: int) -> Floats:
    """Bound what a label loses to each rival per √odds, shape [K, K]; 0 for equal laws."""
    whole("batch", batch, least=1, unit="reports")
    return np.asarray(np.minimum(design.laws.divergences / 2, 1))
