"""The divergence D_θ of a known distribution, and its conversion to other units."""

from __future__ import annotations

import math

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
        return float((pi[seen] * np.log(pi[seen] / mixed)).sum())


def replaced(divergence: float) -> float:
    """Return the least fraction of the records that must be others for D_θ to be so many nats.

    If a part a is replaced by whatever records, ``P >= (1 - a) Π``, so ``D_θ <= -ln(1 - a)``.
    """
    return -math.expm1(-max(divergence, 0.0))


def nats(divergence: float) -> str:
    """Write D_θ with what it means, such as "0.135 nats (as if at least 13 % … were others)"."""
    share = 100 * replaced(divergence)
    return f"{divergence:.3f} nats (as if at least {share:.2g} % of the records were others)"
