"""Client-level privacy: each client's vector is cut to a public bound before it leaves.

Proof note: ``docs/proofs/client-level.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import keep, whole
from flwr_kld.privacy.bits import BitSource
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

    def apply(self, counts: NDArray[Any], bits: BitSource) -> NDArray[np.int64]:
        """Keep as many of the client's records, in uniformly random order, as the bound allows.

        The longest prefix of a random order whose counts stay within the bound: a uniform sample
        of the records, given its size. Scaling and rounding down would erase every rare symbol.

        Parameters
        ----------
        counts : NDArray
            Non-negative integers, shape [cells], in records.
        bits : BitSource
            Random bits of the client.

        Returns
        -------
        NDArray[np.int64]
            Shape [cells], nowhere above `counts`.

        Raises
        ------
        ValueError
            If counts are not non-negative integers.
        """
        if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
            raise ValueError("only non-negative integer counts can be clipped")
        ends = np.cumsum(counts, dtype=np.int64)
        records = int(ends[-1]) if len(ends) else 0
        most = self.bound**self.norm  # as many records fit: |a| <= a**2 on integers
        if self.norm == 1 and records <= most:
            return counts.astype(np.int64)
        kept = np.searchsorted(ends, _random_order(records, most, bits), side="right")
        if self.norm == 2:
            kept = kept[np.cumsum(2 * _earlier(kept) + 1) <= most]
        return np.bincount(kept, minlength=len(counts)).astype(np.int64)


def _random_order(records: int, most: int, bits: BitSource) -> NDArray[np.int64]:
    """First ``min(records, most)`` of the numbers 0..records-1 in uniformly random order."""
    if records <= 4 * most:  # sort random keys
        return np.argsort(bits.words(records), kind="stable")[:most]
    chosen = np.empty(0, dtype=np.int64)
    ceiling = np.uint64((1 << 64) // records * records - 1)
    while len(chosen) < most:  # draw, leaving out what was drawn before
        words = bits.words(2 * most)
        drawn = (words[words <= ceiling] % np.uint64(records)).astype(np.int64)
        chosen = np.concatenate([chosen, drawn])
        chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
    return chosen[:most]


def _earlier(kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry, how many equal entries come before it."""
    order = np.argsort(kept, kind="stable")
    ranked = kept[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(kept)) - np.searchsorted(ranked, ranked, side="left")
    return rank
