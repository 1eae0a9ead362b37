"""The least noise shares that deliver a guarantee, and what those of other survivors deliver.

A search: `ShareRelease` proves what it finds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Literal, get_args

from flwr_kld.calibration.central import analytic_sigma, calibrated_gaussian, zcdp_sigma
from flwr_kld.calibration.laws import discrete_gaussian, laplace_share, skellam_share
from flwr_kld.kernel.arguments import choice, whole
from flwr_kld.kernel.delta import NO_PROTECTION, delivered_delta
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import (
    Ball,
    Guarantee,
    Moves,
    check_epsilon_delta,
    l1_norm,
)
from flwr_kld.kernel.release import NotPrivateEnough, ShareRelease
from flwr_kld.search import edge

Mechanism = Literal["discrete-laplace", "skellam", "discrete-gaussian"]
_STEP = 1.002
"""Ratio of neighbouring noise levels in a search."""
_MOST_STEPS = 1000
_PRECISION = 1e-5
"""Relative precision of a delivered epsilon, which is rounded up."""


@lru_cache(maxsize=32)
def calibrate_shares(
    guarantee: Guarantee,
    *,
    n_min: int,
    mechanism: Mechanism = "discrete-laplace",
    moves: Moves | None = None,
) -> ShareRelease:
    """Find shares of which `n_min` deliver `guarantee` for these moves, by default a record's."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0:
        raise ValueError("noise shares have bounded tables: give delta > 0, it may be 1e-12")
    n_min = whole("n_min", n_min, least=1, unit="clients")
    if moves is None:
        if guarantee.protects != "record":
            raise ValueError("how far a whole client moves counts is said by moves=")
        moves = (1, -1)
    mechanism, hidden = choice("mechanism", mechanism, get_args(Mechanism)), moves

    def event(share: NoiseTable, grid: int) -> ShareRelease:
        return ShareRelease(mechanism, share, n_min, grid, hidden, guarantee)

    if mechanism == "discrete-laplace":
        return event(laplace_share(l1_norm(moves) / epsilon, n_min), 1)
    gaussian = mechanism == "discrete-gaussian"
    sigma = _gaussian_sigma(guarantee, moves, gaussian)

    def attempt(step: int) -> ShareRelease | None:
        total = sigma * _STEP**step
        grid = 1
        if gaussian:  # a share's variance is at least one grid step's
            grid = math.ceil(math.sqrt(n_min) / total) | 1  # odd: sums round to counts evenly
        own = grid * total / math.sqrt(n_min)
        # Discrete Gaussians (Kairouz, Liu, Steinke 2021) add up to about one only if each sigma is
        # about 1 or more; below, the sum protects less than its variance says, and `event` knows.
        share = discrete_gaussian(own) if gaussian else skellam_share(own**2)
        try:
            return event(share, grid)
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


def _gaussian_sigma(guarantee: Guarantee, moves: Moves, gaussian: bool) -> float:
    """Total noise, in counts, of the central Gaussian: shares need as much or a little more."""
    if gaussian and isinstance(moves, Ball):
        return analytic_sigma(guarantee.epsilon, guarantee.delta, (math.sqrt(moves.squares),))
    if isinstance(moves, Ball):
        return zcdp_sigma(moves, guarantee.epsilon, guarantee.delta)
    return math.sqrt(calibrated_gaussian(guarantee, shifts=moves).table.variance)


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
