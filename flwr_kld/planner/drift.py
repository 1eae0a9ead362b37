"""Ways in which clients may move away from the reference, by any amount."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.table import require_one_symbol
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.kernel.arguments import choice, real
from flwr_kld.reference import Reference
from flwr_kld.search import root

Law = NDArray[np.float64]
Shape = Literal["spread", "concentrated", "tilted", "vanishing", "one symbol"]

_PART, _GONE = 0.1, 1 / 3
"""Of Π's mass that a concentrated drift makes more frequent, and a vanishing one rare."""
_SEED = 20_240_229


class Path(ABC):
    """Laws of a population that moves away from the reference."""

    name: str
    """What it is called in tables."""
    farthest: float
    """Largest amount."""
    clients: float = 1.0
    """Part of the clients that move; the others stay where the reference is."""

    @abstractmethod
    def law(self, amount: float) -> Law:
        """Return P of the population at an amount, shape [domain.size]; amount 0 is Π."""

    def at(self, divergence: float, theta: float) -> Law:
        """P at which D_θ has this many nats."""
        start = self.law(0.0)
        if divergence == 0:
            return start

        def excess(amount: float) -> float:
            return skewed_divergence(start, self.law(amount), theta) - divergence

        if not divergence > 0 or excess(self.farthest) < 0:
            raise ValueError(f"a drift of {divergence:g} nats is out of reach at theta={theta:g}")
        return self.law(root(excess, 0.0, self.farthest, within=1e-9))

    def largest(self, theta: float) -> float:
        """D_θ in nats at the largest amount, or nearly ``ln(1/θ)`` if that is less."""
        reached = skewed_divergence(self.law(0.0), self.law(self.farthest), theta)
        return 0.99 * min(reached, math.log(1 / theta) if theta else math.inf)


class Drift(Path):
    """``P ∝ Π e^(amount · s(x))``, s a fixed direction."""

    farthest = 50.0

    def __init__(self, reference: Reference, shape: Shape = "spread") -> None:
        shape = choice("drift", shape, get_args(Shape))
        require_one_symbol(reference.domain, "a drift")
        self.name = shape
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
            gone = shape == "vanishing"
            some, part = (generator.permutation(possible), _GONE) if gone else (order, _PART)
            few = some[: max(np.count_nonzero(np.cumsum(self._p[some]) <= part), 1)]
            self._direction[few] = -1.0 if gone else 1.0

    def law(self, amount: float) -> Law:
        """P at an amount, shape [domain.size]; amount 0 is Π."""
        exponent = amount * self._direction
        weight: Law = self._p * np.exp(exponent - exponent.max())
        weight /= weight.sum()
        return weight


class Towards(Path):
    """``P = (1 - amount · clients) Π + amount · clients · Q``: a mixture with any other law.

    Parameters
    ----------
    reference : Reference
        Π.
    law : array [domain.size]
        Q >= 0, in any unit: what records look like after the drift. It may have mass where the
        reference has none.
    name : str
        What it is called in tables.
    clients : float
        Part of the clients that move, in (0, 1]: a fault in some of them is harder to find than
        the same in a part of everybody's records, as sums of clients vary more.

    Raises
    ------
    ValueError
        If Q is not a law over the reference's domain, that is a table, or a number is out of range.
    """

    farthest = 1.0

    def __init__(
        self, reference: Reference, law: Law, *, name: str = "towards a law", clients: float = 1.0
    ) -> None:
        require_one_symbol(reference.domain, "a drift")
        self._p, weight = reference.probabilities, np.asarray(law, dtype=np.float64)
        if weight.shape != self._p.shape:
            raise ValueError(
                f"the law has shape {weight.shape}, the reference {self._p.shape}: one number a "
                "symbol is needed"
            )
        if not (weight >= 0).all() or not 0 < weight.sum() < math.inf:
            raise ValueError("a law must not be negative anywhere, and have a positive, finite sum")
        self.name = name
        self.clients = real("clients", clients, above=0, most=1)
        self._q = weight / weight.sum()

    def law(self, amount: float) -> Law:
        """P of the population at an amount in [0, 1], shape [domain.size]."""
        moved = amount * self.clients
        mixture: Law = (1 - moved) * self._p + moved * self._q
        return mixture
