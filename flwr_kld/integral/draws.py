"""Exact draws: from a member of a box of densities, or by rejection.

Proof note: ``docs/proofs/integral.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.integral.base import Base, Categorical, FiniteBase, Floats, finite_array
from flwr_kld.integral.mollifier import Mollifier, check_epsilon
from flwr_kld.integral.sampler import Law
from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, TOTAL_BITS, BitSource


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


class BoxLaw(Law):
    """A density of an integer box, fitted to private data."""

    __slots__ = ("_law", "box")

    mechanism = "box"
    bounded_range = None

    def __init__(self, base: FiniteBase, mollifier: Mollifier, density: Floats) -> None:
        integers = IntegerBox(base, mollifier)
        self.box = integers.mollifier
        """Box that every possible law of a draw lies in. Public."""
        self._law = Categorical(integers.nearest(density))

    def _draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` independent symbols, shape [size]."""
        return self._law.draw(size, bits)


LogRatio = Callable[[NDArray[Any]], Floats]
"""F: points of the base, [n] or [n, d], to numbers [n]."""
_SCALE_BITS = 32
_SCALE = 1 << _SCALE_BITS
_SMALLEST_EPSILON = 1e-6
_MISS = 1e-4
"""Largest probability that all tries of the default number fail."""
_MOST_TRIES = 1 << 16
_ROUNDING = 1e-12
"""Relative; far above what float64 can lose in the public constants below."""
_CHUNK = 1 << 18
"""Points evaluated at a time, to bound memory."""


class RejectionLaw(Law):
    """The law ``Q ∝ Q0 e**F`` for F within ``±epsilon/4``."""

    # A point of Q0 is accepted with probability ``e**(F - epsilon/4)``, rounded to 32 bits and
    # clamped to ``[A, 1]``, A just above ``e**(-epsilon/2)``. Relative to Q0 the density of a draw
    # is then between A and ``(1 - (1 - A)**(tries + 1)) / A`` whatever F is, fallback included.

    __slots__ = ("_base", "_log_ratio", "_lowest", "_quarter", "bounded_range", "box", "tries")

    mechanism = "rejection"

    def __init__(
        self, base: Base, log_ratio: LogRatio, epsilon: float, *, tries: int | None = None
    ) -> None:
        epsilon = check_epsilon(epsilon)
        if epsilon < _SMALLEST_EPSILON:
            raise ValueError(f"32 bits hold no acceptances for an epsilon of {epsilon}")
        self._lowest = math.floor(_SCALE * math.exp(-epsilon / 2)) + 2
        """A, in units of 2**-32."""
        lowest = self._lowest / _SCALE
        if tries is None:
            tries = min(math.ceil(math.log(_MISS) / math.log1p(-lowest)), _MOST_TRIES)
        tries = whole("tries", tries, least=1, most=_MOST_TRIES)
        highest = -math.expm1((tries + 1) * math.log1p(-lowest)) / lowest * (1 + _ROUNDING)
        self.tries = tries
        """Points of Q0 looked at for each draw. Public."""
        self.box = Mollifier(math.log(highest / lowest), lowest)
        """Box that every possible law of a draw lies in. Public."""
        self.bounded_range = -2 * math.log(lowest) * (1 + _ROUNDING)
        """Range of the log ratio of any two laws of a draw, in nats. Public."""
        self._base, self._log_ratio, self._quarter = base, log_ratio, epsilon / 4

    def _draw(self, size: int, bits: BitSource) -> NDArray[Any]:
        """Draw `size` independent points, shape [size] or [size, d]."""
        rows = max(1, _CHUNK // (self.tries + 1))
        sizes = [min(rows, size - start) for start in range(0, size, rows)]
        return np.concatenate([self._draw_chunk(n, bits) for n in sizes])

    def _draw_chunk(self, size: int, bits: BitSource) -> NDArray[Any]:
        points = self._base.draw(size * (self.tries + 1), bits)
        rows = points.reshape(size, self.tries + 1, *points.shape[1:])
        tried = np.ascontiguousarray(rows[:, :-1]).reshape(size * self.tries, *points.shape[1:])
        accepted = self._accepts(tried, bits).reshape(size, self.tries)
        last = np.ones((size, 1), dtype=np.bool_)  # the fallback, taken if nothing else is
        first = np.concatenate([accepted, last], axis=1).argmax(axis=1)
        drawn: NDArray[Any] = rows[np.arange(size), first]
        return drawn

    def _accepts(self, points: NDArray[Any], bits: BitSource) -> NDArray[np.bool_]:
        words = bits.words(len(points)) >> np.uint64(64 - _SCALE_BITS)
        accepts: NDArray[np.bool_] = words < self._chances(points)
        return accepts

    def _chances(self, points: NDArray[Any]) -> NDArray[np.uint64]:
        """Probability that a try at each point is accepted, in units of 2**-32."""
        f = np.nan_to_num(self._log_ratio(points), nan=-self._quarter)
        chance = _SCALE * np.exp(np.minimum(f, self._quarter) - self._quarter)
        units: NDArray[np.uint64] = np.clip(np.rint(chance), self._lowest, _SCALE).astype(np.uint64)
        return units
