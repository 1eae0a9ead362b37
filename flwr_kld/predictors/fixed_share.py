"""Fixed share: hypotheses can become true later, so none is ever given up (Herbster, Warmuth 1998).

After each round every weight gives a fraction to the prior. In log-odds the step is non-expansive
(Birkhoff 1957), so what one report can move is still bounded by its own epsilon.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from flwr_kld.predictors.laws import Floats


def fixed_share(log_weights: Floats, log_prior: Floats, rate: float, rounds: int) -> Floats:
    """Log-weights some rounds later, with no reports in between."""
    # Shapes: log_weights [K], log_prior [K].
    if rate == 0 or rounds == 0:
        return log_weights
    kept = rounds * math.log1p(-rate)
    given = math.log(-math.expm1(kept))
    return np.asarray(np.logaddexp(log_weights + kept, log_prior + given))


def normalised(log_weights: Floats) -> Floats:
    """Shift log-weights so that the weights sum to 1."""
    return np.asarray(log_weights - logsumexp(log_weights))
