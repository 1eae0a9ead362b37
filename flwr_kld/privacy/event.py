"""What one release costs: the noise table that is sampled, and the moves it has to hide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flwr_kld.privacy.guarantee import Guarantee
from flwr_kld.privacy.moves import Moves, moves_delta
from flwr_kld.privacy.table import NoiseTable


@dataclass(frozen=True)
class PrivacyEvent:
    """One use of a noise table on an integer vector.

    Accountants need nothing else: `table` is the law that is sampled and `moves` what it hides.

    Parameters
    ----------
    mechanism : str
        ``"discrete-laplace"`` or ``"discrete-gaussian"``.
    table : NoiseTable
        Law of the noise on every coordinate.
    moves : Moves
        Worst-case move between neighbouring datasets, or all moves that are possible; in counts (or
        grid steps for a scalar).
    guarantee : Guarantee
        Asked for; the table was checked against it.
    delivered : float or None
        Epsilon that the noise delivers where it is not what was asked for: clients' noise shares,
        of which more or fewer than planned survived.
    """

    mechanism: str
    table: NoiseTable
    moves: Moves
    guarantee: Guarantee
    delivered: float | None = None

    def delta_at(self, epsilon: float) -> Fraction:
        """Delta of this release at `epsilon` (nats), from the implemented table; from above."""
        return moves_delta(self.table, self.moves, epsilon)
