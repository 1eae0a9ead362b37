"""Exact draws from ``Q ∝ Q0 e**F`` by rejection from Q0, a fixed number of tries, then Q0 itself.

The number of tries does not depend on the data and all of them are always evaluated, so neither the
draw nor its time tells more than the bound. No Markov chain: the paper's Metropolis-Hastings from a
fixed start is not private. Proof note: ``docs/proofs/exact-draws.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.integral.base import Base, Floats
from flwr_kld.integral.mollifier import Mollifier, check_epsilon
from flwr_kld.integral.sampler import Law
from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.law import BitSource

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
    """The law ``Q ∝ Q0 e**F`` for F within ``±epsilon/4``.

    A point of Q0 is accepted with probability ``e**(F - epsilon/4)``, rounded to 32 bits and
    clamped to ``[A, 1]``, A just above ``e**(-epsilon/2)``. Relative to Q0 the density of a draw is
    then between A and ``(1 - (1 - A)**(tries + 1)) / A`` whatever F is, fallback included.
    """

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
