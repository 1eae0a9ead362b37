"""Draws exactly from a density that was fitted within a box.

Proof note: ``docs/proofs/integral.md``.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from flwr_kld.integral.base import FiniteBase, Floats, finite_array
from flwr_kld.integral.mollifier import Mollifier
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, TOTAL_BITS, BitSource, Cumulative
from flwr_kld.kernel.vector import Private


class IntegerBox:
    """All integer laws w on n symbols with ``lower <= w <= upper`` and ``sum(w) == 2**128``."""

    # ``upper[i] <= e**epsilon * lower[i]`` holds in integers, so any two of these laws give any set
    # of symbols probabilities that differ by a factor of at most e**epsilon. Public.

    def __init__(self, base: FiniteBase, mollifier: Mollifier) -> None:
        floors = np.ldexp(mollifier.floor * base.mass, TOTAL_BITS).tolist()
        ratio = int(exp_below(mollifier.epsilon) * TOTAL)
        self.lower = [max(1, int(floor)) for floor in floors]
        self.upper = [floor * ratio >> TOTAL_BITS for floor in self.lower]
        self._epsilon = mollifier.epsilon

    @property
    def mollifier(self) -> Mollifier:
        """A box in real numbers that holds every law of this one, relative to `lower`."""
        floor = Fraction(sum(self.lower), TOTAL)
        return Mollifier(self._epsilon, np.nextafter(float(floor), 0.0).item())

    def nearest(self, density: Floats) -> list[int]:
        """Round a density [n] to integer weights in this box, whatever the density is."""
        # Each mass is rounded down and clamped; what is then missing or too much (of the order of
        # float64's rounding for a density of the real box) goes to the symbols with most room.
        density = finite_array("a density's masses", density)
        if density.shape != (len(self.lower),):
            raise ValueError("a density needs one number for each symbol of its base")
        masses = np.ldexp(np.clip(density, 0, 1), TOTAL_BITS).tolist()  # no mass exceeds 1
        bounds = zip(self.lower, masses, self.upper, strict=True)
        weights = [min(max(int(mass), low), high) for low, mass, high in bounds]
        left = TOTAL - sum(weights)
        limits = self.upper if left > 0 else self.lower
        room = [limit - w for limit, w in zip(limits, weights, strict=True)]
        for i in sorted(range(len(room)), key=lambda i: -abs(room[i])):
            step = min(left, room[i]) if left > 0 else max(left, room[i])
            weights[i] += step
            left -= step
            if not left:
                break
        return weights


class BoxLaw(Private):
    """A density of an integer box, fitted to private data: only a `Sampler` draws from it."""

    __slots__ = ("_law", "box")

    def __init__(self, base: FiniteBase, mollifier: Mollifier, density: Floats) -> None:
        integers = IntegerBox(base, mollifier)
        self.box = integers.mollifier
        """Box that every possible law of a draw lies in. Public."""
        weights = integers.nearest(density)
        if min(weights) <= 0 or sum(weights) != TOTAL:
            raise ValueError("a law needs positive weights that sum to 2**128")
        self._law = Cumulative(weights)

    def _draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` symbols, shape [size], each at the cost of ``box.epsilon``. For `Sampler`."""
        return self._law.draw(size, bits)
