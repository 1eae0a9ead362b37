"""The model of two aggregators: each holds one part of every client's counts, and adds noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flwr_kld.accounting import Cost
from flwr_kld.kernel.law import noise_sum
from flwr_kld.kernel.release import Release
from flwr_kld.messages.sealing import check_public
from flwr_kld.messages.split_terms import TRUST, SplitTerms
from flwr_kld.query.noisy import ClientSums, NoisyCounts
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.central_noise import CentralNoise
from flwr_kld.trust.sight import AGGREGATORS_SEE_SHARES, Sight
from flwr_kld.trust.traffic import Traffic, split_traffic
from flwr_kld.trust.trusted import Trusted


@dataclass(frozen=True)
class TwoAggregators(CentralNoise):
    """Central noise, added twice, by two nodes neither of which sees a count.

    Every client splits its counts in two parts, each random by itself, and seals one to each
    aggregator's public key, which it pinned; the server relays boxes that it cannot open, and can
    read the two answers only together. Each aggregator's noise keeps the guarantee by itself, so
    the promise holds unless both aggregators collude; the variance is twice that of
    `TrustedAggregator`. Clients sign, and both aggregators know them from a pinned list.

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check, against the server together with one of the aggregators.
    aggregators : tuple[bytes, bytes]
        The two 32-byte public keys, ``AggregatorKey.public``: the first receives seeds, some 250
        bytes a client, and the second masked counts.
    delta, noise, adjacency, clip, columns
        As in `Trusted`.

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked or spent.
    """

    aggregators: tuple[bytes, bytes] = field(kw_only=True)

    name = TRUST
    noise_source = TRUST
    aggregations = ("split-sum",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pair(self.aggregators)
        _ = self._central  # calibrated now: a bad pair fails before anything is asked

    @property
    def _central(self) -> Trusted:
        """The model that either aggregator's noise is that of."""
        return Trusted(
            self.epsilon,
            self.delta,
            noise=self.noise,
            adjacency=self.adjacency,
            clip=self.clip,
            columns=self.columns,
        )

    def release_of(self, plan: QueryPlan) -> SplitTerms:
        """Return what clients seal their parts for, and both aggregators are told to do."""
        seeds, vectors = self.aggregator_keys
        return SplitTerms(
            seeds=seeds,
            vectors=vectors,
            guarantee=self.guarantee,
            noise=self.noise,
            clip=self.clip,
            columns=self.columns,
            numbers=plan.length,
            scored=plan.scores is not None,
        )

    @property
    def aggregator_keys(self) -> tuple[str, ...]:
        """Both aggregators' public keys, hexadecimal."""
        return tuple(key.hex() for key in self.aggregators)

    def event(self, clients: int) -> Release:
        """Return the release of counts: the noise of both, of which one has to suffice."""
        return _twice(self._central.event(clients))

    def sums_event(self, clients: int) -> Release:
        """Return the release of sums of scores, as `event` does."""
        return _twice(self._central.sums_event(clients))

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs by one aggregator's noise."""
        return self._central.cost()

    def sums_cost(self, survivors: int | None = None) -> Cost:
        """Return what one release of sums of scores costs by one aggregator's noise."""
        return self._central.sums_cost()

    def sight(self, hides_parts: bool) -> Sight:
        """Say who sees what of a check."""
        return AGGREGATORS_SEE_SHARES

    def traffic(
        self,
        plan: QueryPlan,
        *,
        aggregation: str,
        clients: int,
        known: int,
        twice: bool = False,
    ) -> Traffic:
        """Return what a client is sent and sends in one exchange."""
        return split_traffic(self._question(plan, clients), self.release_of(plan))


def check_pair(aggregators: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return two public keys that counts can be split between."""
    if not isinstance(aggregators, tuple | list) or len(aggregators) != 2:
        raise ValueError("aggregators must be two public keys: (first.public, second.public)")
    first, second = map(check_public, aggregators)
    if first == second:
        raise ValueError("the aggregators need two different keys: one key opens every count")
    return first, second


def central_of(terms: SplitTerms) -> Release:
    """Return the noise that either aggregator adds for these terms."""
    guarantee = terms.guarantee
    central = Trusted(
        guarantee.epsilon,
        guarantee.delta,
        noise=terms.noise,
        adjacency=guarantee.adjacency,
        clip=terms.clip,
        columns=terms.columns,
    )
    return central.sums_event(1) if terms.scored else central.event(1)


def restored(
    terms: SplitTerms, total: NDArray[np.int64], clients: int, plan: QueryPlan
) -> NoisyCounts | ClientSums:
    """Read the sum of the two answers, shape ``[terms.length]``."""
    if total[-1] != clients:
        raise ValueError(
            f"the two parts add up to {total[-1]} clients where {clients} took part: a client's "
            "seed and vector do not belong together"
        )
    noisy, event = total[: terms.numbers], _twice(central_of(terms))
    if terms.scored:
        return ClientSums(noisy, clients, event, plan, private=True)
    records = float(total[-2] if terms.counted else noisy.sum() / len(plan.parts))
    return NoisyCounts(noisy, max(records, 1.0), event, plan, private=True)


def _twice(one: Release) -> Release:
    """Return a release with two draws of its noise, which promises what one of them keeps."""
    return replace(one, mechanism=f"twice {one.mechanism}", added=noise_sum(one.table, 2))
