"""Privacy that the surviving shares deliver, whatever had been asked for.

The shares' exact integer laws are convolved and the sum's divergence is bounded from above; the
mass lost by rounding and cut tails is part of delta.
Proof note: ``docs/proofs/delivered-epsilon.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from flwr_kld.arguments import whole
from flwr_kld.privacy.ball import pure_delta
from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.convolve import noise_sum
from flwr_kld.privacy.guarantee import check_epsilon_delta
from flwr_kld.privacy.hockey_stick import is_pure
from flwr_kld.privacy.moves import Box, Moves, l1_norm, moves_delta
from flwr_kld.privacy.table import NoiseTable

_NO_PROTECTION = 40.0
"""Nats from which on a delivered epsilon is reported as infinite."""
_PRECISION = 1e-5
"""Relative precision of a delivered epsilon, which is rounded up."""
_TINY = Fraction(1, 1 << 40)
"""Delta under which the finer of two bounds is no longer looked for."""


def delivered_delta(
    share: NoiseTable,
    survivors: int,
    honest: int,
    moves: Moves,
    epsilon: float,
    *,
    grid: int = 1,
) -> Fraction:
    """Return an upper bound of delta at `epsilon` for the noise that `honest` shares make.

    Parameters
    ----------
    share : NoiseTable
        What each client added to every coordinate, in grid steps.
    survivors : int
        Clients whose vectors are in the sum.
    honest : int
        How many of them added their share and told nobody its value. The others' noise counts
        for nothing.
    moves : Moves
        What has to be hidden, in counts.
    epsilon : float
        In nats, > 0.
    grid : int
        Grid steps a count, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    honest = whole("honest", honest, least=0, most=survivors, unit="clients")
    grid = whole("grid", grid, least=1, unit="steps")
    if not honest or epsilon >= _NO_PROTECTION:
        return Fraction(1)
    return release_delta(noise_sum(share, honest), moves, epsilon, grid=grid)


def release_delta(law: NoiseTable, moves: Moves, epsilon: float, *, grid: int = 1) -> Fraction:
    """Return an upper bound of delta at `epsilon` for noise of this law, from two bounds.

    Parameters
    ----------
    law : NoiseTable
        Of the noise on every coordinate, in grid steps.
    moves, epsilon, grid
        As in `delivered_delta`.
    """
    around = _around(moves)
    if is_pure(law, around.l1 * grid, epsilon):
        return Fraction(0)
    pure = pure_delta(law, around, grid, epsilon)
    if pure <= _TINY:
        return pure
    return min(pure, moves_delta(law, moves, epsilon, grid=grid))


@lru_cache(maxsize=32)
def delivered_epsilon(
    share: NoiseTable,
    survivors: int,
    honest: int,
    moves: Moves,
    delta: float,
    *,
    grid: int = 1,
    asked: float = 1.0,
) -> float:
    """Least epsilon, rounded up, that `honest` surviving shares deliver at `delta`.

    Parameters and errors are those of `delivered_delta`; the search starts at `asked`, so that
    what was verified there is never reported as more.

    Returns
    -------
    float
        In nats; infinite where the shares protect nobody.
    """
    asked, delta = check_epsilon_delta(asked, delta)

    def enough(epsilon: float) -> bool:
        return delivered_delta(share, survivors, honest, moves, epsilon, grid=grid) <= delta

    low, high = 0.0, asked
    while not enough(high):
        low, high = high, 2 * high
        if low >= _NO_PROTECTION:
            return math.inf
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _around(moves: Moves) -> Ball:
    if isinstance(moves, Ball):
        return moves
    shifts = moves.corner if isinstance(moves, Box) else moves
    if not shifts or 0 in shifts:
        raise ValueError("shifts must be non-zero moves of one coordinate or more")
    return Ball(1, l1_norm(moves), max(map(abs, shifts)))
