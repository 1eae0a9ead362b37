"""The least noise shares that deliver a guarantee.

A search: `ShareRelease` proves what it finds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Literal, get_args

from flwr_kld.kernel.arguments import choice, integer
from flwr_kld.kernel.promise import (
    Ball,
    Guarantee,
    Moves,
    l1_norm,
)
from flwr_kld.kernel.release import NotPrivateEnough, ShareRelease
from flwr_kld.trust.calibration import analytic_sigma, calibrated_gaussian
from flwr_kld.trust.noise_laws import discrete_gaussian, laplace_share

Mechanism = Literal["discrete-laplace", "discrete-gaussian"]
_STEP = 1.002
"""Ratio of neighbouring noise levels in a search."""
_MOST_STEPS = 1000


@lru_cache(maxsize=32)
def calibrate_shares(
    guarantee: Guarantee,
    *,
    n_min: int,
    mechanism: Mechanism | None = None,
    moves: Moves | None = None,
) -> ShareRelease:
    """Find shares of which `n_min` deliver `guarantee` for these moves, by default a record's.

    They add up to noise of the law that has the smaller variance, unless one is named.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0:
        raise ValueError("noise shares have bounded tables: give delta > 0, it may be 1e-12")
    n_min = integer("n_min", n_min, least=1, unit="clients")
    if moves is None:
        if guarantee.protects != "record":
            raise ValueError("how far a whole client moves counts is said by moves=")
        moves = (1, -1)
    scale = l1_norm(moves) / epsilon
    if mechanism is None:
        sigma = analytic_sigma(epsilon, delta, _lengths(moves))
        mechanism = "discrete-laplace" if math.sqrt(2) * scale <= sigma else "discrete-gaussian"
    law, hidden = choice("mechanism", mechanism, get_args(Mechanism)), moves
    if law == "discrete-laplace":
        return ShareRelease(law, laplace_share(scale, n_min), n_min, 1, hidden, guarantee)
    sigma = _gaussian_sigma(guarantee, moves)

    def attempt(step: int) -> ShareRelease | None:
        total = sigma * _STEP**step
        # A share's variance is at least one grid step's; odd, so that sums round to counts evenly.
        # Discrete Gaussians (Kairouz, Liu, Steinke 2021) add up to about one only if each sigma is
        # about 1 or more; below, the sum protects less than its variance says.
        grid = math.ceil(math.sqrt(n_min) / total) | 1
        share = discrete_gaussian(grid * total / math.sqrt(n_min))
        try:
            return ShareRelease(law, share, n_min, grid, hidden, guarantee)
        except NotPrivateEnough:
            return None

    found = _least(attempt)
    if found is None:
        raise ValueError(f"no noise shares serve epsilon={epsilon}, delta={delta}: raise either")
    return found


def _least(attempt: Callable[[int], ShareRelease | None]) -> ShareRelease | None:
    """Find the least step that succeeds: doubling strides from 0, then bisection."""
    tried = cache(attempt)
    low, high = -1, 0
    while tried(high) is None:
        low, high = high, 2 * high + 1
        if high > _MOST_STEPS:
            return None
    while high <= 0 and low > -_MOST_STEPS and tried(low):
        low, high = 2 * low - 1, low
    between = range(low + 1, high)
    return tried(low + 1 + bisect_left(between, True, key=lambda step: tried(step) is not None))


def _lengths(moves: Moves) -> tuple[float, ...]:
    """Return numbers whose 2-norm is that of the farthest move."""
    return (math.sqrt(moves.squares),) if isinstance(moves, Ball) else moves


def _gaussian_sigma(guarantee: Guarantee, moves: Moves) -> float:
    """Total noise, in counts, of the central Gaussian: shares need as much or a little more."""
    if isinstance(moves, Ball):
        return analytic_sigma(guarantee.epsilon, guarantee.delta, _lengths(moves))
    return math.sqrt(calibrated_gaussian(guarantee, shifts=moves).table.variance)
