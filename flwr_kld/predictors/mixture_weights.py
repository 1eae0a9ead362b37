"""In which proportions the hypotheses explain the reports, if none of them does alone.

The Bayesian weights concentrate on the one nearest hypothesis; the maximum-likelihood mixture
``Σ_j v_j f_j`` of the same counts is what to read where the truth lies between hypotheses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.predictors.laws import Floats

_MOST_STEPS = 1000
_GAP = 0.01
_LEAST = 1e-3
"""Of what EM gives a hypothesis: an extrapolation takes no more of it away."""


def mixture_weights(counts: NDArray[np.int64], law: Floats) -> Floats:
    """Maximise ``Σ n ln Σ_j v_j Q_j`` over the simplex by EM, extrapolated.

    Plain EM crawls where the reports hardly tell hypotheses apart; squared extrapolation (Varadhan,
    Roland 2008), kept only where it is better, takes tens of steps. It stops within a hundredth of
    a nat of the maximum, or after 1,000 steps: the objective is concave, and ``N ln max_j g_j``
    bounds what is left, with g the mean ratios of the step.
    """
    # Shapes: counts [rows], law [rows, K].
    weights = np.full(law.shape[1], 1 / law.shape[1])
    total = counts.sum()
    if not total:
        return weights
    share = counts / total

    def ratios(v: Floats) -> Floats:
        return np.asarray((share / (law @ v)) @ law)

    for _ in range(_MOST_STEPS):
        gains = ratios(weights)
        if total * np.log(gains.max()) < _GAP:
            break
        once = weights * gains
        twice = once * ratios(once)
        first, second = once - weights, twice - 2 * once + weights
        stretch = np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-300)
        far = np.maximum(weights + 2 * stretch * first + stretch**2 * second, _LEAST * twice)
        far /= far.sum()
        better = share @ np.log(law @ far) >= share @ np.log(law @ twice)
        weights = far if better else twice
    return np.asarray(weights / weights.sum())
