"""Releases: one whose noise does not hide its moves at its guarantee cannot be constructed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flwr_kld.kernel.arguments import finite, integer, set_fields
from flwr_kld.kernel.delta import delivered_delta, release_delta
from flwr_kld.kernel.law import NoiseTable, noise_sum
from flwr_kld.kernel.promise import Ball, Guarantee, Moves, check_shifts


class NotPrivateEnough(ValueError):
    """The noise does not keep what is claimed for it."""


@dataclass(frozen=True)
class Release:
    """One use of a noise table on an integer vector. Every instance has been verified.

    Accountants need nothing else: `table` is the law that is sampled and `moves` what it hides.

    Parameters
    ----------
    mechanism : str
        ``"discrete-laplace"`` or ``"discrete-gaussian"``.
    table : NoiseTable
        Law of the noise on every coordinate, or of that part of it that protects.
    moves : Moves
        Worst-case move between neighbouring datasets, or all moves that are possible; in counts or
        grid steps.
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
        if not isinstance(self.moves, Ball):
            set_fields(self, moves=check_shifts(self.moves))
        promised = self.guarantee.epsilon
        for epsilon in {promised, promised if self.delivered is None else self.delivered}:
            if self.delta_at(finite("delivered", epsilon, above=0)) > self.guarantee.delta:
                raise NotPrivateEnough(
                    f"the noise of this release ({self.table}) does not keep epsilon = {epsilon:g} "
                    f"at delta = {self.guarantee.delta:g}: calibrate it, say by "
                    "flwr_kld.trust.calibration.least_noise(guarantee, moves)"
                )

    def __init_subclass__(cls) -> None:
        raise TypeError("a Release has no kinds: another class might prove less")

    @property
    def noise(self) -> NoiseTable:
        """Law of all noise on every coordinate; for estimators."""
        return self.added or self.table

    def delta_at(self, epsilon: float) -> Fraction:
        """Delta of this release at `epsilon` (nats), from the implemented table; from above."""
        return _delta(self.table, self.moves, epsilon)


_delta = lru_cache(maxsize=256)(release_delta)
"""Strategies make one event anew for every question."""


@dataclass(frozen=True)
class ShareRelease:
    """One use of noise shares on a summed integer vector. Every instance has been verified.

    Parameters
    ----------
    mechanism : {"discrete-laplace", "discrete-gaussian"}
        Law that the shares add up to.
    share : NoiseTable
        What each client adds to every coordinate, in grid steps.
    n_min : int
        Honest survivors that the guarantee needs; the check is aborted below.
    grid : int
        Grid steps a count: clients multiply counts by it, the server divides the sum.
    moves : Moves
        What is hidden, in counts.
    guarantee : Guarantee
        Delivered by `n_min` shares.

    Raises
    ------
    NotPrivateEnough
        If `n_min` shares deliver less than `guarantee`.
    ValueError
        If a number is out of range.
    """

    mechanism: str
    share: NoiseTable
    n_min: int
    grid: int
    moves: Moves
    guarantee: Guarantee

    def __post_init__(self) -> None:
        set_fields(
            self,
            n_min=integer("n_min", self.n_min, least=1, unit="clients"),
            grid=integer("grid", self.grid, least=1, unit="steps"),
        )
        if self.delivered_delta(self.n_min) > self.guarantee.delta:
            raise NotPrivateEnough(f"{self.n_min} shares do not deliver {self.guarantee}")

    def noise(self, survivors: int) -> NoiseTable:
        """Law of the whole noise in each cell, in grid steps; for estimators."""
        return noise_sum(self.share, survivors)

    @property
    def variance(self) -> float:
        """Variance of the noise in each cell that `n_min` shares make, in squared counts."""
        return self.noise(self.n_min).variance / self.grid**2

    def delivered_delta(self, honest: int) -> Fraction:
        """Delta at the asked epsilon of so many honest surviving shares; from above."""
        return delivered_delta(
            self.share, honest, self.moves, self.guarantee.epsilon, grid=self.grid
        )
