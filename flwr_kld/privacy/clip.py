"""Client-level privacy: each client's vector is cut to a public bound before it leaves.

Proof note: ``docs/proofs/client-level.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flwr_kld.arguments import keep, whole
from flwr_kld.privacy.guarantee import Adjacency

_LARGEST_BOUND = 2**20 - 1


@dataclass(frozen=True)
class Ball:
    """Every integer move a with ``Σ |a_i|**norm <= power`` and ``|a_i| <= largest``.

    Parameters
    ----------
    norm : {1, 2}
        Exponent of the norm.
    power : int
        Bound on the sum of powers: the l1 norm, or the squared l2 norm; in (squared) counts.
    largest : int
        Bound on the move of one coordinate, in counts.

    Raises
    ------
    ValueError
        If no move at all is inside.
    """

    norm: Literal[1, 2]
    power: int
    largest: int

    def __post_init__(self) -> None:
        keep(
            self,
            norm=whole("norm", self.norm, least=1, most=2),
            power=whole("power", self.power, least=1),
            largest=whole("largest", self.largest, least=1),
        )
        if self.largest**self.norm > self.power:
            raise ValueError("a ball of moves needs largest**norm <= power")

    @property
    def l1(self) -> int:
        """Largest l1 norm of a move: ``|a| <= a**2`` on integers."""
        return self.power

    @property
    def coordinates(self) -> int:
        """Most coordinates that can move: each takes at least 1 of `power`."""
        return self.power


@dataclass(frozen=True)
class Clip:
    """Public bound on one client's count vector.

    Parameters
    ----------
    bound : int
        Of the norm, in records, >= 1. Must not be chosen by looking at the data.
    norm : {1, 2}
        1: at most `bound` records. 2: Euclidean norm of the counts at most `bound`.

    Raises
    ------
    ValueError
        If the bound is not a positive integer or the norm is unknown.
    """

    bound: int
    norm: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        keep(
            self,
            bound=whole("bound", self.bound, least=1, most=_LARGEST_BOUND, unit="records"),
            norm=whole("norm", self.norm, least=1, most=2),
        )

    def moves(self, adjacency: Adjacency, columns: int = 1) -> Ball:
        """How far one client moves the sum of clipped vectors.

        Add-remove: its vector is there or all zeros. Replace-one: it becomes any other clipped
        vector; counts are not negative, so the squared l2 norm only doubles. Of a table at most
        `bound` rows are counted, each once in every column.
        """
        vectors = 1 if adjacency is Adjacency.ADD_REMOVE else 2
        return Ball(self.norm, columns * vectors * self.bound**self.norm, self.bound)
