"""Ways in which clients may move away from the reference, by any amount."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.reference import Reference

Law = NDArray[np.float64]
Shape = Literal["spread", "concentrated"]

_LARGEST = 50.0
_PART = 0.1
"""Of Π's mass that a concentrated drift moves."""
_SEED = 20_240_229


class Drift:
    """``P ∝ Π e^(amount · s(x))``, s a fixed direction.

    Parameters
    ----------
    reference : Reference
        Π.
    shape : {"spread", "concentrated"}
        Spread: s is normal, independent from symbol to symbol, so a divergence lies in many
        movements, most of them small. Concentrated: s is 1 on the most frequent symbols, those
        that together hold a tenth of Π (or on the first alone), and 0 elsewhere.
    """

    def __init__(self, reference: Reference, shape: Shape = "spread") -> None:
        if shape not in ("spread", "concentrated"):
            raise ValueError(f"a drift is 'spread' or 'concentrated', got {shape!r}")
        self._p = reference.probabilities
        if shape == "spread":
            generator = np.random.default_rng(_SEED)
            self._direction = np.zeros(len(self._p))
            possible = self._p > 0
            self._direction[possible] = generator.standard_normal(np.count_nonzero(possible))
        else:
            order = np.argsort(-self._p, kind="stable")
            self._direction = np.zeros(len(self._p))
            self._direction[order] = np.cumsum(self._p[order]) <= _PART
            self._direction[order[0]] = 1.0

    def law(self, amount: float) -> Law:
        """P at an amount, shape [domain.size]; amount 0 is Π."""
        exponent = amount * self._direction
        weight: Law = self._p * np.exp(exponent - exponent.max())
        weight /= weight.sum()
        return weight

    def at(self, divergence: float, theta: float) -> Law:
        """P at which D_θ has this many nats.

        Raises
        ------
        ValueError
            If this drift cannot go as far.
        """
        if divergence == 0:
            return self._p

        def excess(amount: float) -> float:
            return skewed_divergence(self._p, self.law(amount), theta) - divergence

        if not divergence > 0 or excess(_LARGEST) < 0:
            raise ValueError(f"a drift of {divergence:g} nats is out of reach at theta={theta:g}")
        return self.law(float(brentq(excess, 0.0, _LARGEST, xtol=1e-9)))


def largest_divergence(drift: Drift, theta: float) -> float:
    """D_θ in nats at the largest amount, or nearly ``ln(1/θ)`` if that is less."""
    reached = skewed_divergence(drift.law(0.0), drift.law(_LARGEST), theta)
    return 0.99 * min(reached, math.log(1 / theta) if theta else math.inf)
