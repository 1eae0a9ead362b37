"""The aggregator model: a node of its own sees the counts and adds the noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

from flwr_kld.accounting import Cost
from flwr_kld.arguments import keep
from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.counts.private_counts import ClearSum
from flwr_kld.counts.scalar import NoisyScalar, Scalar
from flwr_kld.messages.release_terms import TRUST, ReleaseTerms
from flwr_kld.messages.sealing import check_public
from flwr_kld.privacy import Guarantee, Unit
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.event import PrivacyEvent
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.trust_model import Trust
from flwr_kld.trust.trusted import Trusted


@dataclass(frozen=True)
class TrustedAggregator(Trust):
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
    delta, noise, adjacency, release, clip, columns
        As in `Trusted`.

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked or spent.
    """

    epsilon: float
    aggregator: bytes = field(kw_only=True)
    delta: float = 0.0
    noise: Literal["least", "laplace", "gaussian"] = "least"
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    release: Literal["counts"] | Scalar = "counts"
    clip: int | None = None
    columns: int = field(default=1, kw_only=True)

    name = TRUST

    def over(self, columns: int) -> Self:
        """Return this model for a table."""
        return replace(self, columns=columns)

    def __post_init__(self) -> None:
        check_public(self.aggregator)
        # Calibrated now: a bad pair fails before anything is asked.
        alike = trusted_of(self.release_terms)
        keep(
            self,
            epsilon=alike.epsilon,
            delta=alike.delta,
            clip=alike.clip,
            columns=alike.columns,
        )

    @property
    def release_terms(self) -> ReleaseTerms:
        """What clients seal their counts for, and the aggregator is told to do."""
        return ReleaseTerms(
            aggregator=self.aggregator.hex(),
            guarantee=self.guarantee,
            noise=self.noise,
            release=self.release,
            clip=self.clip,
            columns=self.columns,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What each check promises."""
        unit = Unit.RECORD if self.clip is None else Unit.CLIENT
        return Guarantee(self.epsilon, self.delta, self.adjacency, unit)

    @property
    def most_records(self) -> int:
        """Records a client may count; 0 for no limit."""
        return self.clip or 0

    @property
    def releases_counts(self) -> bool:
        """Whether counts are published, not a single number."""
        return not isinstance(self.release, Scalar)

    def event(self, clients: int) -> PrivacyEvent:
        """Return the aggregator's release of counts; how many clients there are changes nothing.

        Raises
        ------
        ValueError
            If a single number is released: its noise depends on the plan.
        """
        return trusted_of(self.release_terms).event(clients)

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; how many survive changes nothing."""
        return trusted_of(self.release_terms).cost()

    def prepare(self, plan: QueryPlan, clients: int) -> None:
        """Refuse what the aggregator would."""
        trusted_of(self.release_terms).prepare(plan, clients)

    def publish(self, clear: ClearSum, bits: BitSource) -> NoisyCounts | NoisyScalar | ClientSums:
        """Do what the aggregator does; the server never holds a clear sum."""
        return trusted_of(self.release_terms).publish(clear, bits)


def trusted_of(terms: ReleaseTerms) -> Trusted:
    """Return the central model that an aggregator plays for these terms.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    guarantee = terms.guarantee
    return Trusted(
        guarantee.epsilon,
        guarantee.delta,
        noise=terms.noise,
        adjacency=guarantee.adjacency,
        release=terms.release,
        clip=terms.clip,
        columns=terms.columns,
    )
