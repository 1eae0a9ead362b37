"""What every way of adding up clients' counts offers a check, and which trust model it serves."""

from __future__ import annotations

from typing import Protocol

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.strategies.exchange import Collected, Exchange
from flwr_kld.strategies.plain_sum import PlainSum
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_kept


class Aggregation(Protocol):
    """How clients' counts become a sum."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    @property
    def hides_parts(self) -> bool:
        """Whether the server sees sums only."""
        ...

    @property
    def adds_noise(self) -> bool:
        """Whether sums reach the server with their noise, from an aggregator."""
        ...

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out nodes that are connected but are not clients."""
        ...

    def collect(self, exchange: Exchange, noise: NoiseTerms | None, least: int) -> Collected:
        """Ask the cohort; at least `least` clients must be in the sum."""
        ...


def fitting(trust: Trust, aggregation: Aggregation | None) -> Aggregation:
    """Return the aggregation that is given, or else the usual one of a trust model.

    Raises
    ------
    ValueError
        If the promise would not hold under it, and which one to take; or if the trust model
        promises more than its own release keeps.
    """
    require_kept(trust)
    usual = PlainSum() if trust.release_terms is None else SealedSum()
    aggregation = aggregation or usual
    mine = f"trust={type(trust).__name__}(…)"
    if trust.release_terms is not None and not aggregation.adds_noise:
        raise ValueError(
            f"{mine} needs aggregation=SealedSum(), its default: leave aggregation out, so that "
            "counts are sealed for the aggregator"
        )
    if trust.release_terms is None and aggregation.adds_noise:
        raise ValueError(
            f"aggregation={type(aggregation).__name__}(…) needs trust=TrustedAggregator(…): "
            f"{mine} names no aggregator to seal counts to"
        )
    if trust.noise_terms is not None and not aggregation.hides_parts:
        raise ValueError(
            f"{mine} needs aggregation=SecureSum(): a client's share of the noise does not hide "
            "its own counts"
        )
    return aggregation
