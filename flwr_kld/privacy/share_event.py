"""What one distributed release costs: the share each client adds, checked at `n_min` survivors."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flwr_kld.arguments import keep, whole
from flwr_kld.privacy.convolve import noise_sum
from flwr_kld.privacy.delivered import delivered_delta
from flwr_kld.privacy.event import NotPrivateEnough
from flwr_kld.privacy.guarantee import Guarantee
from flwr_kld.privacy.moves import Moves
from flwr_kld.privacy.table import NoiseTable


@dataclass(frozen=True)
class ShareEvent:
    """One use of noise shares on a summed integer vector. Every instance has been verified.

    Parameters
    ----------
    mechanism : {"discrete-laplace", "skellam", "discrete-gaussian"}
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
        keep(
            self,
            n_min=whole("n_min", self.n_min, least=1, unit="clients"),
            grid=whole("grid", self.grid, least=1, unit="steps"),
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
