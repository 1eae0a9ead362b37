"""The epsilon that the noise shares of the survivors deliver; it may differ from the planned one.

Proof note: ``docs/proofs/noise-shares.md``.
"""

from __future__ import annotations

import math
from functools import lru_cache

from flwr_kld.common.search import edge
from flwr_kld.kernel.delta import NO_PROTECTION, delivered_delta
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Moves, check_epsilon_delta
from flwr_kld.kernel.release import ShareRelease

_PRECISION = 1e-5
"""Relative precision of a delivered epsilon, which is rounded up."""


def epsilon_of(event: ShareRelease, honest: int) -> float:
    """Epsilon that so many honest surviving shares deliver at the guarantee's delta, in nats."""
    asked = event.guarantee
    return delivered_epsilon(
        event.share, honest, event.moves, asked.delta, grid=event.grid, asked=asked.epsilon
    )


@lru_cache(maxsize=32)
def delivered_epsilon(
    share: NoiseTable,
    honest: int,
    moves: Moves,
    delta: float,
    *,
    grid: int = 1,
    asked: float = 1.0,
) -> float:
    """Least epsilon, rounded up, that `honest` surviving shares deliver at `delta`."""
    asked, delta = check_epsilon_delta(asked, delta)

    def enough(epsilon: float) -> bool:
        return delivered_delta(share, honest, moves, epsilon, grid=grid) <= delta

    low, high = 0.0, asked
    while not enough(high):
        low, high = high, 2 * high
        if low >= NO_PROTECTION:
            return math.inf
    return edge(enough, high, low, within=_PRECISION)
