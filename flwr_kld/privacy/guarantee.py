"""What is promised: how much may be learnt, and of whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from flwr_kld.arguments import choice, keep, real


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

    def table_shifts(self, columns: int) -> tuple[int, ...]:
        """How a record moves the counts of a table, in each column of which it is counted once."""
        return self.count_shifts * columns


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
