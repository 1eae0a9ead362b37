"""What one release costs: the noise table that is sampled, and the moves it has to hide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from flwr_kld.privacy.hockey_stick import hockey_stick
from flwr_kld.privacy.table import NoiseTable


class Adjacency(StrEnum):
    """Which two federations must look alike."""

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


@dataclass(frozen=True)
class PrivacyEvent:
    """One use of a noise table on an integer vector.

    Accountants need nothing else: `table` is the law that is sampled and `shifts` the worst move
    of the vector that it hides.

    Parameters
    ----------
    mechanism : str
        ``"discrete-laplace"`` or ``"discrete-gaussian"``.
    table : NoiseTable
        Law of the noise on every coordinate.
    shifts : tuple[int, ...]
        Worst-case move between adjacent federations, in counts (or grid steps for a scalar).
    epsilon, delta : float
        The guarantee asked for, which the table was checked against.
    adjacency : Adjacency
        Between which federations.
    unit : Unit
        For whom.
    any_l1_move : bool
        Whether `shifts` stands for every move of its l1 norm (pure noise only).
    delivered : float or None
        Epsilon that the noise delivers where it is not what was asked for: clients' noise shares,
        of which more or fewer than planned survived.
    """

    mechanism: str
    table: NoiseTable
    shifts: tuple[int, ...]
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit = Unit.RECORD
    any_l1_move: bool = False
    delivered: float | None = None

    def delta_at(self, epsilon: float) -> Fraction:
        """Exact delta of this release at `epsilon` (nats), from the implemented table.

        Raises
        ------
        ValueError
            For noised counts of whole clients at an epsilon below the event's own: which of a
            client's many moves is worst there is not known.
        """
        if self.any_l1_move and epsilon < self.epsilon:
            raise ValueError("the delta of a whole client's counts is known from epsilon upwards")
        return hockey_stick(self.table, self.shifts, epsilon)
