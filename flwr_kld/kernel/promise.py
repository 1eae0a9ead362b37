"""What is promised: how much may be learnt, of whom, and which moves must not show.

Proof notes: ``docs/proofs/counts.md`` for boxes, ``docs/proofs/clients.md`` for balls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from flwr_kld.kernel.arguments import choice, keep, real, several, whole


class Adjacency(StrEnum):
    """The neighbouring relation: which two datasets must look alike."""

    REPLACE_ONE = "replace-one"
    """One record changes its value; the number of records is public."""
    ADD_REMOVE = "add-remove"
    """One record (or one client) is there or not; the number of records is protected."""

    @property
    def count_shifts(self) -> tuple[int, ...]:
        """How a record moves a vector of disjoint counts: l1 norm 2 or 1, in counts."""
        return (1, -1) if self is Adjacency.REPLACE_ONE else (1,)


class Unit(StrEnum):
    """Whose presence or value is hidden."""

    RECORD = "record"
    CLIENT = "client"


class Hidden(NamedTuple):
    """What a promise hides: the neighbouring relation of records or of clients."""

    unit: Unit
    adjacency: Adjacency

    def steps(self, other: Hidden) -> int:
        """Return how many steps between such neighbours lead to one of `other`; 0 if none do.

        One replacement is one removal and one addition; one record's change inside a client is
        one replacement of the client.
        """
        if other.unit is Unit.CLIENT and self.unit is Unit.RECORD:
            return 0
        if self.adjacency is Adjacency.REPLACE_ONE:
            return int(other.adjacency is Adjacency.REPLACE_ONE)
        return 1 if self == other else 2

    def __str__(self) -> str:
        return f"{self.unit}, {self.adjacency}"


def check_epsilon_delta(epsilon: float, delta: float) -> tuple[float, float]:
    """Return both as Python's numbers; ValueError unless epsilon > 0 and delta is in [0, 1)."""
    return real("epsilon", epsilon, above=0, unit="nats"), real("delta", delta, least=0, below=1)


@dataclass(frozen=True)
class Guarantee:
    """A promise of differential privacy: one value from where it is written to the report.

    Parameters
    ----------
    epsilon : float
        In nats, > 0 and finite.
    delta : float
        In [0, 1). Default 0: pure epsilon.
    adjacency : Adjacency
        Neighbouring relation: replace-one (default) or add-remove.
    unit : Unit
        Whether single records (default) or whole clients are hidden.

    Raises
    ------
    ValueError
        If a number is out of range, or a relation or unit is not one of these.

    Examples
    --------
    >>> Guarantee(0.5, 1e-9).covers(Guarantee(0.1))
    True
    >>> print(Guarantee(0.5, 1e-9))
    ε = 0.5, δ = 1e-09 per record (replace-one)
    """

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        epsilon, delta = check_epsilon_delta(self.epsilon, self.delta)
        keep(
            self,
            epsilon=epsilon,
            delta=delta,
            adjacency=choice("adjacency", self.adjacency, Adjacency),
            unit=choice("unit", self.unit, Unit),
        )

    @property
    def hidden(self) -> Hidden:
        """What is hidden."""
        return Hidden(self.unit, self.adjacency)

    @property
    def total_is_public(self) -> bool:
        """Whether the exact number of records hides what is promised: only that records change."""
        return self.hidden == (Unit.RECORD, Adjacency.REPLACE_ONE)

    def covers(self, other: Guarantee) -> bool:
        """Whether whatever keeps `other` also keeps this promise.

        It does if it may lose no more and hides the same. One implication is relied on: to hide
        that a client's records are replaced is to hide that one of them is.
        """
        same = other.hidden.steps(self.hidden) == 1
        return same and other.epsilon <= self.epsilon and other.delta <= self.delta

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        return f"ε = {self.epsilon:g}{delta} per {self.unit} ({self.adjacency})"


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

    def holds(self, other: Ball) -> bool:
        """Whether every move of another ball, of the same norm, is in this one."""
        within = other.power <= self.power and other.largest <= self.largest
        return self.norm == other.norm and within

    @property
    def l1(self) -> int:
        """Largest l1 norm of a move: ``|a| <= a**2`` on integers."""
        return self.power

    @property
    def squares(self) -> int:
        """Most that the squares of a move add up to: ``a**2 <= largest |a|``."""
        return self.power if self.norm == 2 else self.power * self.largest

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


MOST_STEPS = 2**16 - 1
"""Of a count, or of alike records."""


@dataclass(frozen=True)
class Allotment:
    """How finely each column of a table is released: who gets how much of the noise. Public.

    Noise of one law is added to whole steps. A column of which a count is more steps gets, in
    counts, less noise, and is moved further.

    Parameters
    ----------
    counts : tuple[int, ...]
        Steps of a count, one number a column; odd, so that rounding to counts is even.
    alike : int
        Steps by which one record moves each column's number of alike records
        (`kernel.count.alike_records`) at most; 0 where these are not asked.

    Raises
    ------
    ValueError
        If there is no column, or a number is even or out of range.
    """

    counts: tuple[int, ...]
    alike: int = 0

    def __post_init__(self) -> None:
        steps = [whole("steps of a count", n, least=1, most=MOST_STEPS) for n in self.counts]
        if not steps or not all(n % 2 for n in steps):
            raise ValueError(f"steps of a count are odd, one number a column, got {self.counts}")
        keep(
            self,
            counts=tuple(steps),
            alike=whole("alike", self.alike, least=0, most=MOST_STEPS, unit="steps"),
        )

    @classmethod
    def even(cls, columns: int) -> Allotment:
        """Return the same noise for each of so many columns, in whole counts."""
        return cls((1,) * whole("columns", columns, least=1))

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.counts)

    def first(self, columns: int) -> Allotment:
        """Return the steps of the first so many columns, of a release of all."""
        return Allotment(self.counts[:columns], self.alike)

    def record_moves(self, adjacency: Adjacency) -> tuple[int, ...]:
        """How one record moves the numbers, in steps: once in each column, and alike records."""
        moves = [steps * move for steps in self.counts for move in adjacency.count_shifts]
        return (*moves, *((self.alike,) * self.columns if self.alike else ()))

    def client_moves(self, clip: Clip, adjacency: Adjacency) -> Ball:
        """How far one client moves the sum of clipped vectors, in steps.

        Add-remove: its vector is there or all zeros. Replace-one: it becomes any other clipped
        vector; counts are not negative, so the squared l2 norm only doubles. Of a table at most
        `bound` rows are counted, each once in every column. Of its records at most `bound` are
        alike, in every column, whatever the norm.
        """
        vectors = 1 if adjacency is Adjacency.ADD_REMOVE else 2
        size = sum(steps**clip.norm for steps in self.counts)
        size = vectors * size + self.columns * self.alike**clip.norm
        most = max(*self.counts, self.alike)
        return Ball(clip.norm, size * clip.bound**clip.norm, most * clip.bound)


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


def check_shifts(shifts: tuple[int, ...]) -> tuple[int, ...]:
    """Return moves as Python's numbers; ValueError unless there is one and all are whole."""
    whole_shifts = tuple(whole("a shift", shift) for shift in several("shifts", shifts))
    if not whole_shifts:
        raise ValueError("shifts must move at least one coordinate")
    return whole_shifts
