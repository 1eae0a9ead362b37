"""What one release costs: the noise table that is sampled, and the moves it has to hide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flwr_kld.arguments import keep, real
from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.delivered import release_delta
from flwr_kld.privacy.guarantee import Guarantee
from flwr_kld.privacy.hockey_stick import check_shifts
from flwr_kld.privacy.moves import Box, Moves
from flwr_kld.privacy.table import NoiseTable


class NotPrivateEnough(ValueError):
    """The noise does not keep what is claimed for it."""


@dataclass(frozen=True)
class PrivacyEvent:
    """One use of a noise table on an integer vector. Every instance has been verified.

    Accountants need nothing else: `table` is the law that is sampled and `moves` what it hides.

    Parameters
    ----------
    mechanism : str
        ``"discrete-laplace"`` or ``"discrete-gaussian"``.
    table : NoiseTable
        Law of the noise on every coordinate, or of that part of it that protects.
    moves : Moves
        Worst-case move between neighbouring datasets, or all moves that are possible; in counts (or
        grid steps for a scalar).
    guarantee : Guarantee
        Promised, and kept by `table`.
    delivered : float or None
        Epsilon, in nats, that `table` keeps at the guarantee's delta where it is not what was asked
        for: clients' noise shares, of which more than planned survived.
    added : NoiseTable or None
        Law of all noise on every coordinate where there is more than `table`, such as that of
        clients who may have told their share; for estimators.

    Raises
    ------
    NotPrivateEnough
        If `table` does not hide `moves` as `guarantee` or `delivered` says.
    """

    mechanism: str
    table: NoiseTable
    moves: Moves
    guarantee: Guarantee
    delivered: float | None = None
    added: NoiseTable | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.moves, Ball | Box):
            keep(self, moves=check_shifts(self.moves))
        promised = self.guarantee.epsilon
        for epsilon in {promised, promised if self.delivered is None else self.delivered}:
            if self.delta_at(real("delivered", epsilon, above=0)) > self.guarantee.delta:
                raise NotPrivateEnough(
                    f"the noise of this release ({self.table}) does not keep epsilon = {epsilon:g} "
                    f"at delta = {self.guarantee.delta:g}: calibrate it, say by "
                    "flwr_kld.privacy.calibrate.least_noise(guarantee, shifts=moves)"
                )

    def __init_subclass__(cls) -> None:
        raise TypeError("a PrivacyEvent has no kinds: another class might prove less")

    @property
    def noise(self) -> NoiseTable:
        """Law of all noise on every coordinate; for estimators."""
        return self.added or self.table

    def delta_at(self, epsilon: float) -> Fraction:
        """Delta of this release at `epsilon` (nats), from the implemented table; from above."""
        return _delta(self.table, self.moves, epsilon)


_delta = lru_cache(maxsize=256)(release_delta)
"""Strategies make one event anew for every question."""
