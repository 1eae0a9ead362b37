"""The aggregator model: a node of its own sees the counts and adds the noise."""

from __future__ import annotations

from dataclasses import dataclass, field

from flwr_kld.accounting import Cost
from flwr_kld.kernel.release import Release
from flwr_kld.messages.release_terms import TRUST, ReleaseTerms
from flwr_kld.messages.sealing import check_public
from flwr_kld.trust.central_noise import CentralNoise
from flwr_kld.trust.trusted import Trusted


@dataclass(frozen=True)
class TrustedAggregator(CentralNoise):
    """Central noise, added once by a separate node that clients trust instead of the server.

    Clients seal their counts to the aggregator's public key, which they pinned; the server relays
    boxes that it cannot open, and receives noised numbers. The noise is the aggregator's: a
    strategy's `seed` does not reach it.

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check.
    aggregator : bytes
        The aggregator's 32-byte public key, ``AggregatorKey.public``.
    delta, noise, adjacency, clip, columns
        As in `Trusted`.

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked or spent.
    """

    aggregator: bytes = field(kw_only=True)

    name = TRUST

    def __post_init__(self) -> None:
        super().__post_init__()
        check_public(self.aggregator)
        trusted_of(self.release_terms)  # calibrated now: a bad pair fails before anything is asked

    @property
    def release_terms(self) -> ReleaseTerms:
        """What clients seal their counts for, and the aggregator is told to do."""
        return ReleaseTerms(
            aggregator=self.aggregator.hex(),
            guarantee=self.guarantee,
            noise=self.noise,
            clip=self.clip,
            columns=self.columns,
        )

    @property
    def aggregator_keys(self) -> tuple[str, ...]:
        """The aggregator's public key, hexadecimal."""
        return (self.aggregator.hex(),)

    def event(self, clients: int) -> Release:
        """Return the aggregator's release of counts; how many clients there are changes nothing."""
        return trusted_of(self.release_terms).event(clients)

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; how many survive changes nothing."""
        return trusted_of(self.release_terms).cost()


def trusted_of(terms: ReleaseTerms) -> Trusted:
    """Return the central model that an aggregator plays for these terms."""
    guarantee = terms.guarantee
    return Trusted(
        guarantee.epsilon,
        guarantee.delta,
        noise=terms.noise,
        adjacency=guarantee.adjacency,
        clip=terms.clip,
        columns=terms.columns,
    )
