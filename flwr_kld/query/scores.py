"""What the deciding half of a check is asked: a few sums over clients, of public scores of records.

Each record has two public scores, by its cell: how far the witness stays below what the threshold
allows, and whether it lies outside the reference. A client adds its records' scores up to S and
answers with S, S², ln(1 + stake S) and the number of its records: whole sums over clients, so that
records of one client may depend on each other however they do. Where clients are few, each record
counts by itself.
Proof note: ``docs/proofs/client-sums.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flwr_kld.arguments import Unfit, keep, whole
from flwr_kld.codec.model import Model
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.guarantee import Adjacency, Guarantee, Unit

Floats = NDArray[np.float64]

NUMBERS = ("total", "squares", "log_wealth", "records", "outside", "outside_squares")
"""What a client answers with, in this order."""
MOVES = (12, 12, 10, 1, 3, 4)
"""Steps by which what is protected moves each number at most: the noise is shared out so."""
MOST_RECORDS = 2**20
"""Records that a client counts at most, whatever is asked: the numbers fit 32 bits."""
SUMS_MOVE = Ball(1, sum(MOVES), max(MOVES))
"""All moves of a client's numbers."""
LARGEST_SCORE = 2**15 - 1
"""Scores are whole steps within this, to both sides."""
LARGEST_LOSS = 0.5
"""Part of its stake that the worst client can lose: ``stake · most_records · (-least score)``."""
_LARGEST_STAKE = 1.0
_FINE = 1 << 36
"""Log wealths are whole numbers of 1 / 2**36 nats: everything that is added up is exact."""
_OFF = 2
"""By how many of these two log wealths, computed in float64 and rounded, may differ too much."""
_PUBLIC = Fraction(1, 64)
"""Unit of a number that nobody moves: steps so fine that the noise is nothing."""
_WEALTH = NUMBERS.index("log_wealth")

_Score = Annotated[int, Field(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]


@dataclass(frozen=True)
class Scores(Model, what="the scores"):
    """Public scores of the records in each cell. Everything in it is public.

    Parameters
    ----------
    divergence : tuple[int, ...]
        One a cell, in steps: positive where the reference has less than the witness expects.
        If D_θ is at most the threshold, their mean over the population is at most 0.
    outside : tuple[int, ...]
        One a cell, in steps: 1 less what is tolerated for cells outside the reference, and less
        what is tolerated for all others; all 0 if nothing can lie outside.
    stake : float
        Fraction of the wealth that is bet on a step of `divergence`, >= 0.
    most_records : int
        Records that a client counts at most, 1 to `MOST_RECORDS`.
    by : {"client", "record"}
        Whether a client's records are one draw from the population, or each of them is.

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    divergence: tuple[_Score, ...]
    outside: tuple[_Score, ...]
    stake: Annotated[float, Field(ge=0)]
    most_records: Annotated[int, Field(ge=1, le=MOST_RECORDS)]
    by: Literal["client", "record"]

    def __post_init__(self) -> None:
        if not self.divergence or len(self.divergence) != len(self.outside):
            raise Unfit("outside", "as long as divergence, and not empty", len(self.outside))
        for name in ("divergence", "outside"):
            if max(map(abs, getattr(self, name))) > LARGEST_SCORE:
                raise Unfit(name, f"within {LARGEST_SCORE} steps", "more")
        keep(
            self, most_records=whole("most_records", self.most_records, least=1, most=MOST_RECORDS)
        )
        if self.by not in ("client", "record"):
            raise ValueError(f"scores count by 'client' or 'record', got {self.by!r}")
        if not 0 <= self.stake <= _LARGEST_STAKE:
            raise Unfit("stake", f"from 0 to {_LARGEST_STAKE:g}", self.stake)
        if self.stake * -self._lowest > LARGEST_LOSS:
            raise Unfit("stake", f"at most {LARGEST_LOSS} of what a client can lose", self.stake)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.divergence)

    @cached_property
    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both scores of each cell, in steps; shape [cells] each."""
        return np.array(self.divergence, dtype=np.int64), np.array(self.outside, dtype=np.int64)

    def units(self, guarantee: Guarantee) -> Floats:
        """Return what one step of each number is worth; shape [6].

        In steps of scores, their squares, nats, records, and again steps and their squares. The
        smallest units with which nothing that the guarantee protects moves a number by more than
        `MOVES`: clients compute with them as fractions, and readers in float64.
        """
        units = np.array([float(unit) for unit in _units(self, guarantee)])
        units[_WEALTH] /= _FINE
        return units

    def limits(self, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest number of steps that an honest client can answer."""
        return _limits(self, guarantee)

    def numbers(self, counts: NDArray[np.int64]) -> Floats:
        """Compute a client's numbers from its counts, shape [cells], in natural units."""
        numbers = np.array(self.exactly(counts), dtype=np.float64)
        numbers[_WEALTH] /= _FINE
        return numbers

    def exactly(self, counts: NDArray[np.int64]) -> tuple[int, ...]:
        """Compute a client's numbers as whole numbers, of log wealth in 2**-36 nats."""
        if self.by == "record":
            return tuple(int(counts @ table) for table in self._of_records)
        s, out = (int(counts @ table) for table in self.tables)
        return s, s * s, self._wealth(s), int(counts.sum()), out, out * out

    def answer(
        self, counts: NDArray[np.int64], guarantee: Guarantee, bits: BitSource
    ) -> NDArray[np.int64]:
        """Compute a client's numbers in whole steps; shape [6].

        Rounded up or down at random so that the mean stays: what one record moves, it moves by as
        many steps at most whatever the coin, so the coins of two neighbours can be the same.
        """
        numbers, units = self.exactly(counts), _units(self, guarantee)
        coins = [Fraction(int(word), 1 << 64) for word in bits.words(len(numbers))]
        steps = [math.floor(x / u + c) for x, u, c in zip(numbers, units, coins, strict=True)]
        return np.array(steps, dtype=np.int64)

    @cached_property
    def _of_records(self) -> tuple[NDArray[Any], ...]:
        """What one record adds to each number, by its cell."""
        divergence, outside = self.tables
        wealth = np.array([self._wealth(s) for s in self.divergence], dtype=np.int64)
        one = np.ones(self.cells, dtype=np.int64)
        return (divergence, divergence**2, wealth, one, outside, outside**2)

    def _wealth(self, s: int) -> int:
        """``ln(1 + stake s)`` in `_FINE`, rounded."""
        return round(math.log1p(self.stake * s) * _FINE)

    @property
    def _many(self) -> int:
        """Records that are one draw from the population, at most."""
        return self.most_records if self.by == "client" else 1

    @property
    def _lowest(self) -> int:
        return self._many * min(*self.divergence, 0)

    def _range(self, number: str) -> tuple[int, int]:
        """Least and largest value of a client's number, 0 included."""
        if self.by == "record":
            table = self._of_records[NUMBERS.index(number)]
            low, high = min(int(table.min()), 0), max(int(table.max()), 0)
            return self.most_records * low, self.most_records * high
        if number == "records":
            return 0, self.most_records
        low, high = self._sums(self.tables[number.startswith("outside")])
        if number.endswith("squares"):
            return 0, max(low**2, high**2)
        if number == "log_wealth":
            return self._wealth(low) - _OFF, self._wealth(high) + _OFF
        return low, high

    def _sums(self, table: NDArray[np.int64]) -> tuple[int, int]:
        """Least and largest sum of a client's scores."""
        most = self.most_records
        return most * min(int(table.min()), 0), most * max(int(table.max()), 0)

    def _record_moves(self, adjacency: Adjacency) -> list[int]:
        """How far one record moves each number at most."""
        comes = adjacency is Adjacency.ADD_REMOVE
        if self.by == "record":
            return [_farthest(table, comes=comes) for table in self._of_records]
        moves = []
        for table in self.tables:
            move, (low, high) = _farthest(table, comes=comes), self._sums(table)
            far = max(-low, high)
            moves += [move, move * (2 * far - move) if move < far else far**2]
        total, squares, outside, outside_squares = moves
        low, _ = self._sums(self.tables[0])
        wealth = math.log1p(self.stake * total / (1 + self.stake * low)) * _FINE
        return [total, squares, math.ceil(wealth) + _OFF, int(comes), outside, outside_squares]

    def _client_moves(self, adjacency: Adjacency) -> list[int]:
        """How far one client moves each number at most."""
        ranges = map(self._range, NUMBERS)
        if adjacency is Adjacency.ADD_REMOVE:
            return [max(-low, high) for low, high in ranges]
        return [high - low for low, high in ranges]


def _farthest(table: NDArray[np.int64], *, comes: bool) -> int:
    """How far a record moves a sum over records: another may take its place, or it may come."""
    return max(int(np.ptp(table)), int(np.abs(table).max()) if comes else 0)


@lru_cache(maxsize=64)
def _units(scores: Scores, guarantee: Guarantee) -> tuple[Fraction, ...]:
    if guarantee.unit is Unit.RECORD:
        moves = scores._record_moves(guarantee.adjacency)
    else:
        moves = scores._client_moves(guarantee.adjacency)
    return tuple(
        Fraction(move, steps) if move > 0 else _PUBLIC
        for move, steps in zip(moves, MOVES, strict=True)
    )


@lru_cache(maxsize=64)
def _limits(scores: Scores, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ranges = zip(map(scores._range, NUMBERS), _units(scores, guarantee), strict=True)
    ends = [(math.floor(low / unit), math.ceil(high / unit)) for (low, high), unit in ranges]
    low, high = np.array(ends, dtype=np.int64).T
    return low, high
