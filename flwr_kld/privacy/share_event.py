"""What one distributed release costs: the share each client adds, checked at `n_min` survivors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

from flwr_kld.arguments import choice, keep, whole
from flwr_kld.privacy.ball import zcdp_sigma
from flwr_kld.privacy.calibrate import calibrated_gaussian
from flwr_kld.privacy.clip import Ball, Clip
from flwr_kld.privacy.convolve import noise_sum
from flwr_kld.privacy.delivered import delivered_delta, delivered_epsilon
from flwr_kld.privacy.event import NotPrivateEnough
from flwr_kld.privacy.guarantee import Guarantee, Unit
from flwr_kld.privacy.moves import Box, Moves, l1_norm
from flwr_kld.privacy.shares import gaussian_share, laplace_share, skellam_share
from flwr_kld.privacy.table import NoiseTable

Mechanism = Literal["discrete-laplace", "skellam", "discrete-gaussian"]

_STEP = 1.002
"""Ratio of neighbouring noise levels in a search."""
_MOST_STEPS = 1000


@dataclass(frozen=True)
class ShareEvent:
    """One use of noise shares on a summed integer vector. Every instance has been verified.

    Parameters
    ----------
    mechanism : {"discrete-laplace", "skellam", "discrete-gaussian"}
        Law that the shares add up to.
    share : NoiseTable
        What each client adds to every coordinate, in grid steps.
    n_min : int
        Honest survivors that the guarantee needs; the check is aborted below.
    grid : int
        Grid steps a count: clients multiply counts by it, the server divides the sum.
    moves : Moves
        What is hidden, in counts.
    guarantee : Guarantee
        Delivered by `n_min` shares.

    Raises
    ------
    NotPrivateEnough
        If `n_min` shares deliver less than `guarantee`.
    ValueError
        If a number is out of range.
    """

    mechanism: str
    share: NoiseTable
    n_min: int
    grid: int
    moves: Moves
    guarantee: Guarantee

    def __post_init__(self) -> None:
        keep(
            self,
            n_min=whole("n_min", self.n_min, least=1, unit="clients"),
            grid=whole("grid", self.grid, least=1, unit="steps"),
        )
        if self.delivered_delta(self.n_min, self.n_min) > self.guarantee.delta:
            raise NotPrivateEnough(f"{self.n_min} shares do not deliver {self.guarantee}")

    def noise(self, survivors: int) -> NoiseTable:
        """Law of the whole noise in each cell, in grid steps; for estimators."""
        return noise_sum(self.share, survivors)

    @property
    def variance(self) -> float:
        """Variance of the noise in each cell that `n_min` shares make, in squared counts."""
        return self.noise(self.n_min).variance / self.grid**2

    def delivered_delta(self, survivors: int, honest: int) -> Fraction:
        """Delta at the asked epsilon; see `delivered.delivered_delta`."""
        return delivered_delta(
            self.share, survivors, honest, self.moves, self.guarantee.epsilon, grid=self.grid
        )

    def delivered_epsilon(self, survivors: int, honest: int) -> float:
        """Epsilon at the asked delta; see `delivered.delivered_epsilon`."""
        return delivered_epsilon(
            self.share,
            survivors,
            honest,
            self.moves,
            self.guarantee.delta,
            grid=self.grid,
            asked=self.guarantee.epsilon,
        )


@lru_cache(maxsize=32)
def calibrate_shares(
    guarantee: Guarantee,
    *,
    n_min: int,
    mechanism: Mechanism = "discrete-laplace",
    clip: Clip | None = None,
    moves: Moves | None = None,
    columns: int = 1,
) -> ShareEvent:
    """Find shares of which `n_min` deliver `guarantee`.

    Parameters
    ----------
    guarantee : Guarantee
        With delta > 0. Discrete Laplace shares use next to nothing of it: their sum is within some
        2**-70 of pure epsilon, but bounded tables cannot be pure.
    n_min : int
        Honest survivors to rely on, >= 1; 1 is central noise.
    mechanism : {"discrete-laplace", "skellam", "discrete-gaussian"}
        Discrete Laplace (default) for single records or l1 clips, the others also for l2 clips.
    clip : Clip, optional
        How whole clients' vectors of counts are clipped; needed if they are what is hidden.
    moves : Moves, optional
        Moves of a vector other than one of counts, whatever is hidden.
    columns : int
        In each of which a record is counted once.

    Raises
    ------
    ValueError
        If an argument is out of range, or no table of reasonable size can serve.
    """
    epsilon, delta, adjacency = guarantee.epsilon, guarantee.delta, guarantee.adjacency
    if delta == 0:
        raise ValueError("noise shares have bounded tables: give delta > 0, it may be 1e-12")
    n_min = whole("n_min", n_min, least=1, unit="clients")
    columns = whole("columns", columns, least=1)
    if moves is None:
        if (guarantee.unit is Unit.CLIENT) != (clip is not None):
            raise ValueError("clip= and unit=Unit.CLIENT go together: give both, or neither")
        moves = adjacency.table_shifts(columns) if clip is None else clip.moves(adjacency, columns)
    mechanism, hidden = choice("mechanism", mechanism, get_args(Mechanism)), moves

    def event(share: NoiseTable, grid: int) -> ShareEvent:
        return ShareEvent(mechanism, share, n_min, grid, hidden, guarantee)

    if mechanism == "discrete-laplace":
        if isinstance(moves, Ball) and moves.norm == 2:
            raise ValueError("discrete Laplace hides l1 moves: use Clip(norm=1) or other noise")
        return event(laplace_share(l1_norm(moves) / epsilon, n_min), 1)
    sigma = _gaussian_sigma(guarantee, moves)

    def attempt(step: int) -> ShareEvent | None:
        total = sigma * _STEP**step
        grid = 1
        if mechanism == "discrete-gaussian":  # a share's variance is at least one grid step's
            grid = math.ceil(math.sqrt(n_min) / total) | 1  # odd: sums round to counts evenly
        own = grid * total / math.sqrt(n_min)
        share = gaussian_share(own) if mechanism == "discrete-gaussian" else skellam_share(own**2)
        try:
            return event(share, grid)
        except NotPrivateEnough:
            return None

    found = _least(attempt)
    if found is None:
        raise ValueError(f"no noise shares serve epsilon={epsilon}, delta={delta}: raise either")
    return found


def _least(attempt: Callable[[int], ShareEvent | None]) -> ShareEvent | None:
    """Find the least step that succeeds: doubling strides from 0, then bisection."""
    low, high, best = -1, 0, attempt(0)
    while best is None:
        low, high = high, 2 * high + 1
        if high > _MOST_STEPS:
            return None
        best = attempt(high)
    while high <= 0 and low > -_MOST_STEPS and (less := attempt(low)):
        low, high, best = 2 * low - 1, low, less
    while high - low > 1:
        middle = (low + high) // 2
        if less := attempt(middle):
            high, best = middle, less
        else:
            low = middle
    return best


def _gaussian_sigma(guarantee: Guarantee, moves: Moves) -> float:
    """Total noise, in counts, of the central Gaussian: shares need as much or a little more."""
    if isinstance(moves, Ball):
        return zcdp_sigma(moves, guarantee.epsilon, guarantee.delta)
    shifts = moves.corner if isinstance(moves, Box) else moves
    return math.sqrt(calibrated_gaussian(guarantee, shifts=shifts).table.variance)
