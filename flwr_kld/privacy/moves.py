"""What a release has to hide: one worst move of an integer vector, or every move of a set.

Proof notes: ``docs/proofs/table-noise.md`` for boxes, ``docs/proofs/client-level.md`` for balls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flwr_kld.arguments import keep
from flwr_kld.privacy.ball import renyi_delta
from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.hockey_stick import check_shifts, hockey_stick, is_pure
from flwr_kld.privacy.table import TOTAL, NoiseTable


@dataclass(frozen=True)
class Box:
    """Every integer move a with ``|a_i| <= corner_i``.

    Parameters
    ----------
    corner : tuple[int, ...]
        Largest move of each coordinate, in counts or steps, >= 0.

    Raises
    ------
    ValueError
        If a bound is negative, or none is given.
    """

    corner: tuple[int, ...]

    def __post_init__(self) -> None:
        corner = check_shifts(self.corner)
        if min(corner) < 0:
            raise ValueError("the corner of a box of moves must not be negative")
        keep(self, corner=corner)


Moves = tuple[int, ...] | Ball | Box
"""The worst move of the vector, or the set of all that are possible; in counts."""


def l1_norm(moves: Moves) -> int:
    """Largest l1 norm of a move."""
    if isinstance(moves, Ball):
        return moves.l1
    return sum(map(abs, moves.corner if isinstance(moves, Box) else moves))


def hides(moves: Moves, others: tuple[int, ...] | Box) -> bool:
    """Whether noise that hides `moves` hides `others`: every coordinate's noise has the same law.

    So coordinates may change places, and no sign matters.
    """
    needed = sorted(map(abs, others.corner if isinstance(others, Box) else others), reverse=True)
    if isinstance(moves, Ball):
        return max(needed) <= moves.largest and sum(n**moves.norm for n in needed) <= moves.power
    hidden = sorted(map(abs, moves.corner if isinstance(moves, Box) else moves), reverse=True)
    if not isinstance(moves, Box):  # of one move nothing follows for a smaller one
        return not isinstance(others, Box) and Counter(needed) <= Counter(hidden)
    most = zip(hidden, needed, strict=False)
    return len(hidden) >= len(needed) and all(h >= n for h, n in most)


def worst_case(law: NoiseTable, moves: tuple[int, ...] | Box) -> tuple[NoiseTable, tuple[int, ...]]:
    """Return noise and a move that give away at least what `law` and any of `moves` do.

    Of a ball the worst move is not known.
    """
    if isinstance(moves, Box):
        return log_concave(law), moves.corner
    return law, moves


def moves_delta(law: NoiseTable, moves: Moves, epsilon: float, *, grid: int = 1) -> Fraction:
    """Delta at `epsilon` of noise that hides `moves`; an upper bound for each of them.

    Parameters
    ----------
    law : NoiseTable
        The noise on every coordinate, in grid steps.
    moves : Moves
        Moves to hide, in counts.
    epsilon : float
        In nats, > 0.
    grid : int
        Grid steps a count.
    """
    if is_pure(law, l1_norm(moves) * grid, epsilon):
        return Fraction(0)
    if isinstance(moves, Ball):
        return renyi_delta(law, moves, grid, epsilon)
    noise, shifts = worst_case(law, moves)
    return hockey_stick(noise, tuple(grid * s for s in shifts), epsilon)


@lru_cache(maxsize=32)
def log_concave(table: NoiseTable) -> NoiseTable:
    """Return a log-concave law that is nowhere above `table`; what it lacks is its tail.

    Noise tables are log-concave laws rounded to whole weights, which costs them that in their far
    tails. Of log-concave noise the largest move of a coordinate gives away most. As with
    `noise_sum`, where in the tail the rest lies is not claimed.
    """
    middle = table.weights[table.reach]
    before = last = middle - middle % 2  # a tail is even
    side = []
    for weight in table.weights[table.reach + 1 :]:
        before, last = last, min(weight, last * last // before)
        if not last:
            break
        side.append(last)
    weights = (*side[::-1], middle - middle % 2, *side)
    lost = TOTAL - sum(weights)
    return NoiseTable(weights, lost, 1 if lost else 0)
