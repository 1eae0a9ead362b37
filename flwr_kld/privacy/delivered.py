"""Privacy that the surviving shares deliver, whatever had been asked for.

The shares' exact integer laws are convolved and the sum's divergence is bounded from above; the
mass lost by rounding and cut tails is part of delta.
Proof note: ``docs/proofs/delivered-epsilon.md``.
"""

from __future__ import annotations

from fractions import Fraction

from flwr_kld.arguments import whole
from flwr_kld.privacy.ball import pure_delta
from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.convolve import noise_sum
from flwr_kld.privacy.hockey_stick import is_pure
from flwr_kld.privacy.moves import Box, Moves, l1_norm, moves_delta
from flwr_kld.privacy.table import NoiseTable

NO_PROTECTION = 40.0
"""Nats from which on a delivered epsilon is reported as infinite."""
_TINY = Fraction(1, 1 << 40)
"""Delta under which the finer of two bounds is no longer looked for."""


def delivered_delta(
    share: NoiseTable, honest: int, moves: Moves, epsilon: float, *, grid: int = 1
) -> Fraction:
    """Return an upper bound of delta at `epsilon` for the noise that `honest` shares make.

    Parameters
    ----------
    share : NoiseTable
        What each client added to every coordinate, in grid steps.
    honest : int
        Clients in the sum that added their share and told nobody its value. The others' noise
        counts for nothing.
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
    honest = whole("honest", honest, least=0, unit="clients")
    grid = whole("grid", grid, least=1, unit="steps")
    if not honest or epsilon >= NO_PROTECTION:
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


def _around(moves: Moves) -> Ball:
    if isinstance(moves, Ball):
        return moves
    shifts = moves.corner if isinstance(moves, Box) else moves
    if not shifts or 0 in shifts:
        raise ValueError("shifts must be non-zero moves of one coordinate or more")
    return Ball(1, l1_norm(moves), max(map(abs, shifts)))
