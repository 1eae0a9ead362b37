"""Guarantees (epsilon, delta), and the moves of the data that noise must hide.

Proof note of balls: ``docs/proofs/clients.md``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from flwr_kld.kernel.arguments import InvalidArgument, as_tuple, finite, integer, set_fields

_MOST_RECORDS = 2**20 - 1


@dataclass(frozen=True)
class WholeClients:
    """Protect whole clients: one client's records are replaced by none. Who takes part is public.

    Parameters
    ----------
    most_records : int
        Records of a client that count, >= 1: of more, a uniform sample. Must not be chosen by
        looking at the data.

    Raises
    ------
    ValueError
        If it is not a positive integer.
    """

    most_records: int

    def __post_init__(self) -> None:
        most = integer(
            "most_records", self.most_records, least=1, most=_MOST_RECORDS, unit="records"
        )
        set_fields(self, most_records=most)


Protects = Literal["record"] | WholeClients
"""What must not show: that one record changes its value, or that a client has any records."""
Protected = Literal["record", "client"]
"""Whom an amount of privacy is for."""


def check_epsilon_delta(epsilon: float, delta: float) -> tuple[float, float]:
    """Return both as Python's numbers; ValueError unless epsilon > 0 and delta is in [0, 1)."""
    return finite("epsilon", epsilon, above=0, unit="nats"), finite(
        "delta", delta, least=0, below=1
    )


@dataclass(frozen=True)
class Guarantee:
    """A promise of differential privacy: one value from where it is written to the report.

    Parameters
    ----------
    epsilon : float
        In nats, > 0 and finite.
    delta : float
        In [0, 1). Default 0: pure epsilon.
    protects : "record" or WholeClients
        ``"record"`` (default): that one record changes its value; how many records a client has is
        public. `WholeClients`: that one client's records are replaced by none; that it takes part
        is public.

    Raises
    ------
    ValueError
        If a number is out of range, or `protects` is neither.

    Examples
    --------
    >>> Guarantee(0.5, 1e-9).covers(Guarantee(0.1))
    True
    >>> print(Guarantee(0.5, 1e-9))
    ε = 0.5, δ = 1e-09 per record
    >>> print(Guarantee(0.5, protects=WholeClients(most_records=50)))
    ε = 0.5 per client of at most 50 records
    """

    epsilon: float
    delta: float = 0.0
    protects: Protects = "record"

    def __post_init__(self) -> None:
        epsilon, delta = check_epsilon_delta(self.epsilon, self.delta)
        set_fields(self, epsilon=epsilon, delta=delta)
        if self.protects != "record" and not isinstance(self.protects, WholeClients):
            raise InvalidArgument(
                "protects", "'record' or WholeClients(most_records=…)", self.protects
            )

    @property
    def protected(self) -> Protected:
        """Whom the amounts are for."""
        return "client" if isinstance(self.protects, WholeClients) else "record"

    @property
    def most_records(self) -> int:
        """Records of a client that count; 0 for all, where single records are protected."""
        return self.protects.most_records if isinstance(self.protects, WholeClients) else 0

    def covers(self, other: Guarantee) -> bool:
        """Whether `other` protects the same and loses no more."""
        same = other.protects == self.protects
        return same and other.epsilon <= self.epsilon and other.delta <= self.delta

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        most = f" of at most {self.most_records} records" if self.most_records else ""
        return f"ε = {self.epsilon:g}{delta} per {self.protected}{most}"


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
        set_fields(
            self,
            norm=integer("norm", self.norm, least=1, most=2),
            power=integer("power", self.power, least=1),
            largest=integer("largest", self.largest, least=1),
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
        steps = [integer("steps of a count", n, least=1, most=MOST_STEPS) for n in self.counts]
        if not steps or not all(n % 2 for n in steps):
            raise ValueError(f"steps of a count are odd, one number a column, got {self.counts}")
        set_fields(
            self,
            counts=tuple(steps),
            alike=integer("alike", self.alike, least=0, most=MOST_STEPS, unit="steps"),
        )

    @classmethod
    def even(cls, columns: int) -> Allotment:
        """Return the same noise for each of so many columns, in whole counts."""
        return cls((1,) * integer("columns", columns, least=1))

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.counts)

    def first(self, columns: int) -> Allotment:
        """Return the steps of the first so many columns, of a release of all."""
        return Allotment(self.counts[:columns], self.alike)

    def moves(self, protects: Protects) -> Moves:
        """How far the numbers move, in steps, by what is protected.

        A record that changes its value leaves one cell of each column and enters another; and it
        moves alike records. Of a client whose records are replaced by none, at most `most_records`
        were counted, each once in every column, and at most so many were alike.
        """
        if isinstance(protects, WholeClients):
            size = sum(self.counts) + self.columns * self.alike
            most = max(*self.counts, self.alike)
            return Ball(1, size * protects.most_records, most * protects.most_records)
        moves = [move for steps in self.counts for move in (steps, -steps)]
        return (*moves, *((self.alike,) * self.columns if self.alike else ()))


Moves = tuple[int, ...] | Ball
"""The worst move of the vector, or the set of all that are possible; in counts."""


def l1_norm(moves: Moves) -> int:
    """Largest l1 norm of a move."""
    if isinstance(moves, Ball):
        return moves.l1
    return sum(map(abs, moves))


def hides(moves: Moves, others: Moves) -> bool:
    """Whether noise that hides `moves` hides `others`: every coordinate's noise has the same law.

    So coordinates may change places, and no sign matters.
    """
    if isinstance(others, Ball):
        return isinstance(moves, Ball) and moves.holds(others)
    if isinstance(moves, Ball):
        needed = list(map(abs, others))
        return max(needed) <= moves.largest and sum(n**moves.norm for n in needed) <= moves.power
    # Of one move nothing follows for a smaller one.
    return Counter(map(abs, others)) <= Counter(map(abs, moves))


def check_shifts(shifts: tuple[int, ...]) -> tuple[int, ...]:
    """Return moves as Python's numbers; ValueError unless there is one and all are whole."""
    whole_shifts = tuple(integer("a shift", shift) for shift in as_tuple("shifts", shifts))
    if not whole_shifts:
        raise ValueError("shifts must move at least one coordinate")
    return whole_shifts
