"""From symbols to a client's numbers: counts by cell, sums of scores, and their public bounds.

The deciding half of a check is asked for a few sums over clients, of public scores of records. Each
record has two scores, by its cell: how far the witness stays below what the threshold allows, and
whether it lies outside the reference. A client adds its records' scores up to S, capped at a
ceiling, and answers with S, S² and the number of its records: whole sums over clients, so that
records of one client may depend on each other however they do.
Proof note: ``docs/proofs/clients.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import Unfit, keep, real, whole
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Box, Guarantee

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
_MOST_ALIKE = 2**31 - 1
"""Steps of alike records that a client answers with at most: more count as these."""
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

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    divergence: tuple[int, ...]
    outside: tuple[int, ...]
    ceiling: int
    most_records: int

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
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.divergence, self.outside, self.ceiling, self.most_records))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.divergence)

    @cached_property
    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both scores of each cell, in steps; shape [cells] each."""
        return np.array(self.divergence, dtype=np.int64), np.array(self.outside, dtype=np.int64)

    @property
    def worst(self) -> int:
        """How far below 0 a client's sum can be, in steps, >= 0."""
        return self.most_records * max(-min(self.divergence), 0)

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
        if number == "records":
            return 0, self.most_records
        low, high = self._ends(number.startswith("outside"))
        return (0, max(low**2, high**2)) if number.endswith("squares") else (low, high)

    def _ends(self, outside: bool) -> tuple[int, int]:
        """Least and largest sum of a client's scores, 0 included."""
        table = self.tables[outside]
        low = self.most_records * min(int(table.min()), 0)
        high = self.most_records * max(int(table.max()), 0)
        return low, high if outside else min(high, self.ceiling)

    def _record_moves(self) -> list[int]:
        """How far one record that changes its value moves each number at most."""
        moves = []
        for outside in (False, True):
            table, (low, high) = self.tables[outside], self._ends(outside)
            move, far = min(int(np.ptp(table)), high - low), max(-low, high)
            moves += [move, move * (2 * far - move) if move < far else far**2]
        return [*moves[:2], 0, *moves[2:]]

    def _client_moves(self) -> list[int]:
        """How far one client moves each number at most."""
        return [max(-low, high) for low, high in map(self._range, NUMBERS)]


@lru_cache(maxsize=64)
def sums_move(columns: int) -> Box:
    """Return all moves of a client's numbers, over all columns of a table."""
    return Box(MOVES * columns)


@lru_cache(maxsize=_COLUMNS)
def _units(scores: Scores, guarantee: Guarantee) -> tuple[Fraction, ...]:
    whole_clients = guarantee.protected == "client"
    moves = scores._client_moves() if whole_clients else scores._record_moves()
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


Asked = tuple[Scores, ...]
"""Scores of each column: `check_scores` holds."""
_QUESTIONS = 4
"""Of which tables are kept."""


def numbers_of(scores: Asked, counts: NDArray[np.integer]) -> NDArray[np.object_]:
    """Compute clients' `NUMBERS` of each column from their counts: whole and exact.

    Parameters
    ----------
    scores : tuple[Scores, ...]
        What is added up in each column.
    counts : NDArray[np.integer]
        Shape [clients, cells].

    Returns
    -------
    NDArray[np.object_]
        Shape [clients, 5 · columns], in columns' order, in steps of scores.
    """
    starts, tables, ceilings = _tables(scores)
    sums = [np.add.reduceat(counts * each, starts, axis=1, dtype=np.int64) for each in tables]
    total, records, outside = (own.astype(object) for own in sums)  # squares exceed 64 bits
    total = np.minimum(total, ceilings)
    numbers = np.stack([total, total**2, records, outside, outside**2], axis=2)
    return numbers.reshape(len(counts), -1)


def answer_of(
    scores: Asked, counts: NDArray[np.integer], guarantee: Guarantee, coins: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Compute clients' numbers of each column in whole steps; shape [clients, 5 · columns].

    Rounded up or down at random so that the mean stays: what one record moves, it moves by as many
    steps at most whatever the coins, so the coins of two neighbours can be the same.

    Parameters
    ----------
    scores : tuple[Scores, ...]
        What is added up in each column.
    counts : NDArray[np.integer]
        Shape [clients, cells].
    guarantee : Guarantee
        Which the steps fit.
    coins : NDArray[np.uint64]
        Random words of the clients, shape [clients, 5 · columns].
    """
    up, down = _fractions(scores, guarantee)
    # floor(number / unit + coin / 2**64), in whole numbers
    steps = (numbers_of(scores, counts) * (down << 64) + coins.astype(object) * up) // (up << 64)
    return np.asarray(steps, dtype=np.int32)


@lru_cache(maxsize=_QUESTIONS)
def limits_of(scores: Asked, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the largest number of steps that an honest client can answer."""
    low, high = np.concatenate([each.limits(guarantee) for each in scores], axis=1)
    return low, high


@lru_cache(maxsize=_QUESTIONS)
def _tables(
    scores: Asked,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First cell of each column; what is summed, of each cell; and ceilings."""
    starts = np.cumsum([0, *(each.cells for each in scores)])[:-1]
    divergence, outside = np.concatenate([each.tables for each in scores], axis=1)
    summed = np.stack([divergence, np.ones_like(outside), outside])
    return starts, summed, np.array([each.ceiling for each in scores])


@lru_cache(maxsize=_QUESTIONS)
def _fractions(
    scores: Asked, guarantee: Guarantee
) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Numerators and denominators of the unit of each number of each column."""
    units = [unit.as_integer_ratio() for each in scores for unit in each.fractions(guarantee)]
    up, down = np.array(units, dtype=object).T
    return up, down


def alike_records(
    counts: NDArray[np.integer],
    starts: Sequence[int],
    guarantee: Guarantee,
    steps: int,
    coins: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Compute how many of a client's records are alike, in each column, in whole steps.

    ``Σ c (c - 1) / (n - 1)`` over its cells' counts c, which add up to n: as many as are in the
    same cell as another of its records, drawn at random. One for a single record. One record that
    is replaced moves it by 2 at most; one that comes or goes, by 1: as far as it moves counts.
    Steps are sized for the first or the second (proof note: ``docs/proofs/counts.md``), and rounded
    up or down at random so that the mean stays.

    Parameters
    ----------
    counts : NDArray[np.integer]
        Shape [clients, cells].
    starts : Sequence[int]
        First cell of each column.
    guarantee : Guarantee
        Says whether records are replaced, or come and go.
    steps : int
        By which one record moves a number at most.
    coins : NDArray[np.uint64]
        Random words of the clients, shape [clients, columns].
    """
    counts = counts.astype(np.int64)
    pairs = np.add.reduceat(counts * (counts - 1), starts, axis=1)
    records = np.add.reduceat(counts, starts, axis=1)
    single = records == 1
    pairs, others = pairs + single, np.maximum(records - 1, 1)
    others *= moved_by(guarantee)  # below 2**32, so that nothing leaves 64 bits
    wholes, rest = np.divmod(pairs, others)
    more, rest = np.divmod(steps * rest, others)
    # floor(rest / others + coin / 2**32), in whole numbers
    up = rest.astype(np.uint64) << np.uint64(32)
    up_from = others.astype(np.uint64) * (np.uint64(2**32) - (coins >> np.uint64(32)))
    # A refusal of what 32 bits do not hold would tell of the number of records.
    return np.asarray(np.minimum(steps * wholes + more + (up >= up_from), _MOST_ALIKE))


def moved_by(guarantee: Guarantee) -> int:
    """By how many alike records one record moves them at most."""
    return 2 if guarantee.protects == "record" else 1


TIMES = 4
"""What a client counts at most, over the mean of the others. Of sizes that spread lognormally with
σ = 1, 8 % of the records are left out."""


@dataclass(frozen=True)
class ClientLimit:
    """Public: how many records one client of a sum counts, where single records are protected.

    Parameters
    ----------
    most_records : int
        That one client counts at most.
    largest : int
        That any client of this sum counts.
    claimed : int
        That all clients together say they have.
    over : dict[str, int]
        Clients that claim more than `most_records`, and how many: a uniform sample counts.
    single : int
        Clients of a single record.
    others : float
        Records of the same client beside a counted one, on average over the records.
    """

    most_records: int
    largest: int
    claimed: int
    over: dict[str, int]
    single: int
    others: float

    @classmethod
    def of(
        cls, sizes: Sequence[int] | NDArray[np.int64], most: int, over: dict[str, int]
    ) -> ClientLimit:
        """Return it for clients of these sizes."""
        counted = np.minimum(np.asarray(sizes, dtype=np.int64), most)
        others = float(counted.astype(np.float64) @ (counted - 1)) / int(counted.sum())
        single = int((counted == 1).sum())
        return cls(most, int(counted.max()), int(np.sum(sizes)), over, single, others)

    def __post_init__(self) -> None:
        for name in ("most_records", "largest", "claimed"):
            whole(name, getattr(self, name), least=1)
        whole("single", self.single, least=0)
        real("others", self.others, least=0)

    @property
    def counted(self) -> int:
        """Records in the sum."""
        return self.claimed - sum(self.over.values()) + self.most_records * len(self.over)


def fair_limit(sizes: Sequence[int]) -> int:
    """Return the largest number that is at most `TIMES` the mean of what the others count under it.

    Parameters
    ----------
    sizes : Sequence[int]
        Records of each client, at least one positive; clients without any do not lower the mean.

    Examples
    --------
    >>> fair_limit([100, 100, 100])
    400
    >>> fair_limit([100] * 29 + [30_000])
    400
    """
    known = np.sort(np.array([size for size in sizes if size > 0], dtype=np.int64))
    others = len(known) - 1
    if not others:
        return int(known[0])
    below, above = np.cumsum(known), np.arange(others, -1, -1)
    fits = TIMES * (below + above * known) >= (others + TIMES) * known
    last = np.flatnonzero(fits)[-1]  # the smallest size always fits
    if last == others:
        return int(TIMES * below[-2] // others)
    return int(TIMES * below[last] // (others + TIMES - TIMES * above[last]))


def sampled(counts: NDArray[np.int32], most: int, bits: BitSource) -> NDArray[np.int64]:
    """Return the counts of a uniform sample of `most` of the counted records, without replacement.

    Records are drawn by their place among all of them, or those to leave out if they are fewer:
    exact, in the memory of the sample, however many records a client claims.
    """
    places = np.cumsum(counts, dtype=np.int64)
    total = int(places[-1])
    fewer = min(most, total - most)
    rng = np.random.default_rng(bits.words(4))
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < fewer:
        drawn = np.union1d(drawn, rng.integers(total, size=fewer - len(drawn)))
    picked = np.bincount(np.searchsorted(places, drawn, side="right"), minlength=len(counts))
    return picked if fewer == most else counts - picked


class InvalidReply(ValueError):
    """A client's reply does not answer the question; that client is left out of the check."""
