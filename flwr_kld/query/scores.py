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
LEAST_STAKE = 2.0**-50
"""Below, float64 would round a log wealth and its unit too coarsely for the moves to be exact."""
_PUBLIC = 1 / 64
"""Unit of a number that nobody moves: steps so fine that the noise is nothing."""
_SLACK = 1 + 1e-9
"""Units are so much larger than float64 rounding asks for."""
_RECORDS = NUMBERS.index("records")

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
        Share of the wealth that is betted on a step of `divergence`, >= 0.
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
        if self.stake and not LEAST_STAKE <= self.stake < math.inf:
            raise Unfit("stake", f"0, or at least {LEAST_STAKE} and finite", self.stake)
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
        `MOVES`: exact in what a client may hold, and rounded up.
        """
        return _units(self, guarantee)

    def limits(self, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest number of steps that an honest client can answer."""
        units = self.units(guarantee)
        low, high = np.array([self._range(number) for number in NUMBERS]).T
        return np.floor(low / units).astype(np.int64), np.ceil(high / units).astype(np.int64)

    def numbers(self, counts: NDArray[np.int64]) -> Floats:
        """Compute a client's numbers from its counts, shape [cells], in natural units."""
        if self.by == "record":
            return np.array([float(counts @ table) for table in self._of_records])
        divergence, outside = (float(counts @ table) for table in self.tables)
        return _of_sums(divergence, outside, float(counts.sum()), self.stake)

    def answer(
        self, counts: NDArray[np.int64], guarantee: Guarantee, bits: BitSource
    ) -> NDArray[np.int64]:
        """Compute a client's numbers in whole steps; shape [6].

        Rounded up or down at random so that the mean stays: what one record moves, it moves by as
        many steps at most whatever the coin, so the coins of two neighbours can be the same.
        """
        exact = self.numbers(counts) / self.units(guarantee)
        coins = bits.words(len(exact)) / 2.0**64
        return np.floor(exact + coins).astype(np.int64)

    @cached_property
    def _of_records(self) -> tuple[NDArray[Any], ...]:
        """What one record adds to each number, by its cell."""
        divergence, outside = self.tables
        wealth = np.log1p(self.stake * divergence)
        return (divergence, divergence**2, wealth, np.ones(self.cells), outside, outside**2)

    @property
    def _many(self) -> int:
        """Records that are one draw from the population, at most."""
        return self.most_records if self.by == "client" else 1

    @property
    def _lowest(self) -> int:
        return self._many * min(*self.divergence, 0)

    def _range(self, number: str) -> tuple[float, float]:
        """Least and largest value of a client's number, in natural units."""
        if self.by == "record":
            table = self._of_records[NUMBERS.index(number)]
            low, high = min(float(table.min()), 0.0), max(float(table.max()), 0.0)
            return self.most_records * low, self.most_records * high
        if number == "records":
            return 0.0, float(self.most_records)
        table = self.tables[number.startswith("outside")]
        low, high = self._sums(table)
        if number.endswith("squares"):
            return 0.0, max(low**2, high**2)
        if number == "log_wealth":
            return math.log1p(self.stake * low), math.log1p(self.stake * high)
        return low, high

    def _sums(self, table: NDArray[np.int64]) -> tuple[float, float]:
        """Least and largest sum of a client's scores."""
        most = self.most_records
        return most * min(float(table.min()), 0.0), most * max(float(table.max()), 0.0)

    def _record_moves(self, adjacency: Adjacency) -> Floats:
        """How far one record moves each number at most, in natural units; shape [6]."""
        comes = adjacency is Adjacency.ADD_REMOVE
        if self.by == "record":
            moves = [float(np.ptp(table)) for table in self._of_records]
            if comes:  # another may take its place, where a client counts all it may
                sizes = [float(np.abs(table).max()) for table in self._of_records]
                moves = [max(pair) for pair in zip(moves, sizes, strict=True)]
            return np.array(moves)
        found = [0.0] * len(NUMBERS)
        for table, total in zip(self.tables, ("total", "outside"), strict=True):
            move, (low, high) = float(np.ptp(table)), self._sums(table)
            if comes:
                move = max(move, float(np.abs(table).max()))
            far = max(-low, high)
            square = move * (2 * far - move) if move < far else far**2
            first = NUMBERS.index(total)
            found[first] = move
            found[NUMBERS.index("squares") if total == "total" else first + 1] = square
            if total == "total":
                wealth = math.log1p(self.stake * move / (1 + self.stake * low))
                found[NUMBERS.index("log_wealth")] = wealth
        found[_RECORDS] = float(comes)
        return np.array(found)

    def _client_moves(self, adjacency: Adjacency) -> Floats:
        """How far one client moves each number at most, in natural units; shape [6]."""
        low, high = np.array([self._range(number) for number in NUMBERS]).T
        if adjacency is Adjacency.ADD_REMOVE:
            return np.asarray(np.maximum(-low, high))
        return np.asarray(high - low)


@lru_cache(maxsize=64)
def _units(scores: Scores, guarantee: Guarantee) -> Floats:
    if guarantee.unit is Unit.RECORD:
        moves = scores._record_moves(guarantee.adjacency)
    else:
        moves = scores._client_moves(guarantee.adjacency)
    units = np.where(moves > 0, moves * _SLACK / np.array(MOVES), _PUBLIC)
    units.setflags(write=False)
    return units


def _of_sums(divergence: float, outside: float, records: float, stake: float) -> Floats:
    wealth = math.log1p(stake * divergence)
    return np.array([divergence, divergence**2, wealth, records, outside, outside**2])
