"""Distributed noise: each client adds a share, and nobody sees a clean sum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from flwr_kld.ask.noisy import on_coarser_grid
from flwr_kld.common.guesses import suggests
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import instance, integer, set_fields
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Allotment, Protects
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.ledger import Cost
from flwr_kld.ledger.delivered import epsilon_of
from flwr_kld.trust.terms import NoiseShares
from flwr_kld.trust.trust_model import OTHER_WORDS, Trust, allotted_to


@suggests(arguments=OTHER_WORDS)
@dataclass(frozen=True)
class Distributed(Trust):
    """Noise shares that add up to the guarantee (PRIEST-KLD, Algorithm 3, corrected).

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check.
    min_clients : int
        Clients whose shares must be in the sum; the check is given up below.
    delta : float
        In (0, 1). Default 1e-9. The shares add up to discrete Laplace noise, which uses next to
        nothing of it, or to discrete Gaussian noise, whichever has the smaller variance: in tables
        of many columns, the Gaussian.
    protects : "record" or WholeClients
        As in `Trusted`.
    corrupted : int
        So many of these may tell the server their share: the noise of the others suffices.
    allotment : Allotment
        As in `Trusted`.
    """

    epsilon: float
    min_clients: int = field()  # no default, although every trust model has one
    delta: float = 1e-9
    protects: Protects = "record"
    corrupted: int = 0
    allotment: Allotment = field(default=Allotment.even(1), kw_only=True)

    name = "distributed"

    def over(self, allotment: Allotment | int) -> Self:
        """Return this model for a table."""
        return replace(self, allotment=allotted_to(allotment))

    def __post_init__(self) -> None:
        guarantee = self.guarantee
        set_fields(
            self,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            min_clients=integer("min_clients", self.min_clients, least=2, unit="clients"),
            corrupted=integer(
                "corrupted",
                self.corrupted,
                least=0,
                most=max(self.min_clients - 2, 0),
                unit="clients",
            ),
            allotment=instance("allotment", self.allotment, Allotment, "an Allotment"),
        )
        self.share()  # verified now: a bad pair fails before anything is asked

    @property
    def noise_before(self) -> NoiseShares:
        """The noise that clients share."""
        return NoiseShares(self._honest)

    def share(self) -> ShareRelease:
        """Return the verified law of one client's share."""
        return self.noise_before.release(self.guarantee, self.allotment)

    @property
    def _honest(self) -> int:
        """Clients of the smallest sum whose noise is counted on."""
        return self.min_clients - self.corrupted

    @property
    def guarantee(self) -> Guarantee:
        """What each check promises."""
        return Guarantee(self.epsilon, self.delta, self.protects)

    def event(self, clients: int) -> Release:
        """Return what the noise shares of this many clients add up to."""
        share = self.share()

        def law(clients: int) -> NoiseTable:
            return on_coarser_grid(share.noise(clients), share.grid)

        honest = clients - self.corrupted
        return Release(
            mechanism=f"distributed {share.mechanism}",
            table=law(honest),
            moves=share.moves,
            guarantee=self.guarantee,
            delivered=epsilon_of(share, honest),
            added=law(clients) if self.corrupted else None,
        )

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs at most if this many clients are in the sum.

        They are rounded down to an eighth of the fewest: more noise is post-processing, and a
        ledger composes checks of a few kinds better than of one kind for each number of survivors.
        """
        least = self.min_clients
        more = 0 if survivors is None else survivors - least
        counted = least + more - more % max(least // 8, 1)
        return Cost.of_shares(self.share(), counted, self.corrupted)
