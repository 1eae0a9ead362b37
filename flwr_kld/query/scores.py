"""What the deciding half of a check is asked: a few sums over clients, of public scores of records.

Each record has two public scores, by its cell: how far the witness stays below what the threshold
allows, and whether it lies outside the reference. A client adds its records' scores up to S, capped
at a ceiling, and answers with S, S² and the number of its records: whole sums over clients, so that
records of one client may depend on each other however they do. Where clients are few, each record
counts by itself.
Proof note: ``docs/proofs/client-sums.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import Unfit, choice, keep, whole
from flwr_kld.kernel.promise import Adjacency, Box, Guarantee, Unit

Floats = NDArray[np.float64]

NUMBERS = ("total", "squares", "records", "outside", "outside_squares")
"""What a client answers with, in this order."""
MOVES = (13, 21, 1, 3, 4)
"""Steps by which what is protected moves each number at most: the noise is shared out so."""
MOST_RECORDS = 2**20
"""Records that a client counts at most, whatever is asked."""
LARGEST_SCORE = 2**15 - 1
"""Scores are whole steps within this, to both sides."""
LARGEST_SUM = LARGEST_SCORE * MOST_RECORDS
_PUBLIC = Fraction(1, 64)
"""Unit of a number that nobody moves: steps so fine that the noise is nothing."""
_COLUMNS = 512
"""Of which units are remembered at most: all those of a usual table, and not too many MB."""
_MOST_STEPS = 2**30
"""Of any answer: it fits 32 bits, as a number that wraps would hide nothing."""


@dataclass(frozen=True)
class Scores:
    """Public scores of the records in each cell. Everything in it is public.

    Parameters
    ----------
    divergence : tuple[int, ...]
        One a cell, in steps: positive where the reference has less than the witness expects.
        If D_θ is at most the threshold, their mean over the population is at most 0.
    outside : tuple[int, ...]
        One a cell, in steps: 1 less what is tolerated for cells outside the reference, and less
        what is tolerated for all others; all 0 if nothing can lie outside.
    ceiling : int
        Steps that a client's sum of `divergence` counts for at most, 0 to `LARGEST_SUM`. A cap from
        above only lowers the mean, and keeps the squares of few clients from ruling their sum.
    most_records : int
        Records that a client counts at most, 1 to `MOST_RECORDS`.
    by : {"client", "record"}
        Whether a client's records are one draw from the population, or each of them is.

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    divergence: tuple[int, ...]
    outside: tuple[int, ...]
    ceiling: int
    most_records: int
    by: Literal["client", "record"]

    def __post_init__(self) -> None:
        if not self.divergence or len(self.divergence) != len(self.outside):
            raise Unfit("outside", "as long as divergence, and not empty", len(self.outside))
        for name in ("divergence", "outside"):
            if max(map(abs, getattr(self, name))) > LARGEST_SCORE:
                raise Unfit(name, f"within {LARGEST_SCORE} steps", "more")
        keep(
            self,
            ceiling=whole("ceiling", self.ceiling, least=0, most=LARGEST_SUM),
            most_records=whole("most_records", self.most_records, least=1, most=MOST_RECORDS),
            by=choice("by", self.by, ("client", "record")),
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.divergence, self.outside, self.ceiling, self.most_records, self.by))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.divergence)

    @cached_property
    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both scores of each cell, in steps; shape [cells] each. By record, capped."""
        divergence = np.array(self.divergence, dtype=np.int64)
        if self.by == "record":
            divergence = np.minimum(divergence, self.ceiling)
        return divergence, np.array(self.outside, dtype=np.int64)

    @property
    def worst(self) -> int:
        """How far below 0 the sum of a draw from the population can be, in steps, >= 0."""
        return (self.most_records if self.by == "client" else 1) * max(-min(self.divergence), 0)

    def units(self, guarantee: Guarantee) -> Floats:
        """Return what one step of each number is worth; shape [5].

        In steps of scores, their squares, records, and again steps and their squares. The smallest
        units with which nothing that the guarantee protects moves a number by more than `MOVES`,
        and no answer has more than 2**30 steps.
        """
        return np.array([float(unit) for unit in self.fractions(guarantee)])

    def fractions(self, guarantee: Guarantee) -> tuple[Fraction, ...]:
        """Return `units` exactly: clients compute with these."""
        return _units(self, guarantee)

    def limits(self, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest number of steps that an honest client can answer."""
        return _limits(self, guarantee)

    def _range(self, number: str) -> tuple[int, int]:
        """Least and largest value of a client's number, 0 included."""
        most = self.most_records
        if number == "records":
            return 0, most
        low, high = self._ends(number.startswith("outside"))
        if not number.endswith("squares"):
            return (most * low, most * high) if self.by == "record" else (low, high)
        square = max(low**2, high**2)
        return 0, most * square if self.by == "record" else square

    def _ends(self, outside: bool) -> tuple[int, int]:
        """Least and largest sum of scores of a draw from the population, 0 included."""
        table = self.tables[outside]
        low, high = min(int(table.min()), 0), max(int(table.max()), 0)
        if self.by == "record":
            return low, high
        low, high = self.most_records * low, self.most_records * high
        return low, high if outside else min(high, self.ceiling)

    def _record_moves(self, adjacency: Adjacency) -> list[int]:
        """How far one record moves each number at most."""
        comes = adjacency is Adjacency.ADD_REMOVE
        moves = []
        for outside in (False, True):
            table, (low, high) = self.tables[outside], self._ends(outside)
            if self.by == "record":
                moves += [_farthest(table, comes=comes), _farthest(table**2, comes=comes)]
            else:
                move, far = _farthest(table, comes=comes), max(-low, high)
                move = min(move, high - low)
                moves += [move, move * (2 * far - move) if move < far else far**2]
        return [*moves[:2], int(comes), *moves[2:]]

    def _client_moves(self, adjacency: Adjacency) -> list[int]:
        """How far one client moves each number at most."""
        ranges = map(self._range, NUMBERS)
        if adjacency is Adjacency.ADD_REMOVE:
            return [max(-low, high) for low, high in ranges]
        return [high - low for low, high in ranges]


@lru_cache(maxsize=64)
def sums_move(columns: int) -> Box:
    """Return all moves of a client's numbers, over all columns of a table."""
    return Box(MOVES * columns)


def _farthest(table: NDArray[np.int64], *, comes: bool) -> int:
    """How far a record moves a sum over records: another may take its place, or it may come."""
    return max(int(np.ptp(table)), int(np.abs(table).max()) if comes else 0)


@lru_cache(maxsize=_COLUMNS)
def _units(scores: Scores, guarantee: Guarantee) -> tuple[Fraction, ...]:
    if guarantee.unit is Unit.RECORD:
        moves = scores._record_moves(guarantee.adjacency)
    else:
        moves = scores._client_moves(guarantee.adjacency)
    return tuple(
        max(
            Fraction(move, steps) if move > 0 else _PUBLIC,
            Fraction(max(map(abs, scores._range(number))), _MOST_STEPS),
        )
        for number, move, steps in zip(NUMBERS, moves, MOVES, strict=True)
    )


@lru_cache(maxsize=_COLUMNS)
def _limits(scores: Scores, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ranges = zip(map(scores._range, NUMBERS), _units(scores, guarantee), strict=True)
    ends = [(math.floor(low / unit), math.ceil(high / unit)) for (low, high), unit in ranges]
    low, high = np.array(ends, dtype=np.int64).T
    return low, high
