"""Ways in which clients may move away from the reference, by any amount.

`_GONE` is what a vanishing drift is, `_SEED` fixes the directions in which drifts spread, and
`_FARTHEST` ends searches: none is tuned.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.search import root
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA, score_ceiling
from flwr_kld.kernel.arguments import choice
from flwr_kld.reference import Reference
from flwr_kld.table.table import require_one_symbol

Law = NDArray[np.float64]
Shape = Literal["spread", "tilted", "vanishing", "one symbol"]

_GONE = 1 / 3
"""Of Π's mass that a vanishing drift makes rare."""
_SEED = 20_240_229
_FARTHEST = 50.0
"""Largest amount of a drift."""


class Drift:
    """``P ∝ Π e^(amount · s(x))``, s a fixed direction: laws that move away from the reference."""

    def __init__(self, reference: Reference, shape: Shape = "spread") -> None:
        shape = choice("drift", shape, get_args(Shape))
        require_one_symbol(reference.domain, "a drift")
        self._p = reference.probabilities
        self._direction = np.zeros(len(self._p))
        generator, possible = np.random.default_rng(_SEED), np.flatnonzero(self._p > 0)
        order = possible[np.argsort(-self._p[possible], kind="stable")]
        if shape == "spread":
            self._direction[possible] = generator.standard_normal(len(possible))
        elif shape == "tilted":
            self._direction[possible] = np.linspace(-1, 1, len(possible))
        elif shape == "one symbol":
            self._direction[order[-1]] = 1.0
        else:
            some = generator.permutation(possible)
            few = some[: max(np.count_nonzero(np.cumsum(self._p[some]) <= _GONE), 1)]
            self._direction[few] = -1.0

    def law(self, amount: float) -> Law:
        """P at an amount, shape [domain.size]; amount 0 is Π."""
        exponent = amount * self._direction
        weight: Law = self._p * np.exp(exponent - exponent.max())
        weight /= weight.sum()
        return weight

    def at(self, divergence: float) -> Law:
        """P at which D_θ has this many nats."""
        start = self.law(0.0)
        if divergence == 0:
            return start

        def excess(amount: float) -> float:
            return skewed_divergence(start, self.law(amount), THETA) - divergence

        if not divergence > 0 or excess(_FARTHEST) < 0:
            raise ValueError(f"a drift of {divergence:g} nats is out of reach")
        return self.law(root(excess, 0.0, _FARTHEST, within=1e-9))

    @property
    def largest(self) -> float:
        """D_θ in nats at the largest amount, or nearly ``ln(1/θ)`` if that is less."""
        reached = skewed_divergence(self.law(0.0), self.law(_FARTHEST), THETA)
        return 0.99 * min(reached, score_ceiling(THETA))
