"""The divergence D_θ of a known distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from flwr_kld.kernel.arguments import finite


def skewed_divergence(reference: ArrayLike, other: ArrayLike, theta: float) -> float:
    """Return ``D_θ = KL(Π || (1 - θ) P + θ Π)`` in nats; at θ = 0 the paper's plain KL."""
    # Shapes: reference [domain.size], other [domain.size].
    theta = finite("theta", theta, least=0, below=1)
    pi, p = np.asarray(reference, dtype=float), np.asarray(other, dtype=float)
    if p.sum() <= 0:
        raise ValueError("a distribution without any mass cannot be compared")
    seen = pi > 0
    mixed = (1 - theta) * p[seen] / p.sum() + theta * pi[seen]
    with np.errstate(divide="ignore"):
        found = float((pi[seen] * np.log(pi[seen] / mixed)).sum())
    return max(found, 0.0)  # which rounding may miss
