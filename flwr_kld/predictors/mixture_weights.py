"""In which proportions the hypotheses explain the reports, if none of them does alone.

The Bayesian weights concentrate on the one nearest hypothesis; the maximum-likelihood mixture
``Σ_j v_j f_j`` of the same counts is what to read where the truth lies between hypotheses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.predictors.laws import Floats

_MOST_STEPS = 5000
_GAP = 1e-3


def mixture_weights(counts: NDArray[np.int64], law: Floats) -> Floats:
    """Maximise ``Σ n ln Σ_j v_j Q_j`` over the simplex by EM.

    It stops within a thousandth of a nat of the maximum, or after 5,000 steps: the objective is
    concave, and ``N ln max_j g_j`` bounds what is left, with g the mean ratios of the step.

    Parameters
    ----------
    counts : NDArray[np.int64]
        How often each (query, symbol) was reported, shape [rows].
    law : Floats
        Its likelihood under each hypothesis, shape [rows, K].

    Returns
    -------
    Floats
        Shape [K], summing to 1; uniform without a report.
    """
    weights = np.full(law.shape[1], 1 / law.shape[1])
    total = counts.sum()
    if not total:
        return weights
    share = counts / total
    for _ in range(_MOST_STEPS):
        ratios = (share / (law @ weights)) @ law
        if total * np.log(ratios.max()) < _GAP:
            break
        weights = weights * ratios
    return np.asarray(weights / weights.sum())
