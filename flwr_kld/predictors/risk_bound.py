"""What the Bayesian mixture loses in total, however long it runs.

If hypothesis j is true, reports are drawn by its design and the mixture predicts before each of
them (uniform prior, no share), then for every T

    E Σ_{t=1}^T KL(f_j || p_t)  <=  Σ_{i≠j} min(½ KL(f_j || f_i), 1) / (1 - BC_ij),

with BC_ij the Bhattacharyya coefficient of one report. The paper's bounds grow as √T.
Proof note: ``docs/proofs/bayes-mixture.md``.
"""

from __future__ import annotations

import numpy as np

from flwr_kld.predictors.design import Design
from flwr_kld.predictors.laws import Floats


def kl_risk_bound(design: Design, *, batch: int = 1) -> Floats:
    """Bound the cumulative KL-risk for each true hypothesis.

    Parameters
    ----------
    batch : int
        Reports that arrive between two predictions; each is charged for its own label.

    Returns
    -------
    Floats
        Shape [K], nats; infinite where a report cannot tell two different hypotheses apart.

    Raises
    ------
    ValueError
        If the batch is below 1.
    """
    if batch < 1:
        raise ValueError(f"a batch has at least one report, got {batch}")
    divergence = design.laws.divergences
    apart = 1 - design.affinities**batch
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(divergence == 0, 0.0, batch * np.minimum(divergence / 2, 1) / apart)
    return np.asarray(terms.sum(axis=1))
