"""What one release costs: the noise table that is sampled, and the moves it has to hide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flwr_kld.privacy.guarantee import Guarantee
from flwr_kld.privacy.hockey_stick import hockey_stick
from flwr_kld.privacy.table import NoiseTable


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
    guarantee : Guarantee
        Asked for; the table was checked against it.
    any_l1_move : bool
        Whether `shifts` stands for every move of its l1 norm (pure noise only).
    delivered : float or None
        Epsilon that the noise delivers where it is not what was asked for: clients' noise shares,
        of which more or fewer than planned survived.
    """

    mechanism: str
    table: NoiseTable
    shifts: tuple[int, ...]
    guarantee: Guarantee
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
        if self.any_l1_move and epsilon < self.guarantee.epsilon:
            raise ValueError("the delta of a whole client's counts is known from epsilon upwards")
        return hockey_stick(self.table, self.shifts, epsilon)
