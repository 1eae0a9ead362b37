"""What every way of adding up clients' counts offers a check, and which trust model it serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.arguments import instance
from flwr_kld.strategies.exchange import Collected, Exchange
from flwr_kld.strategies.plain_sum import PlainSum
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.strategies.split_sum import SplitSum
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_kept


@runtime_checkable
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
    def holds_to_limits(self) -> bool:
        """Whether somebody sees each client's numbers, and holds them to what one may answer."""
        ...

    @property
    def adds_noise(self) -> bool:
        """Whether sums reach the server with their noise, from an aggregator."""
        ...

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out nodes that are connected but are not clients."""
        ...

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Find out, before anything is paid for, whether the cohort can be asked."""
        ...

    def collect(self, exchange: Exchange, least: int) -> Collected:
        """Ask the cohort; at least `least` clients must be in the sum."""
        ...


_BY_AGGREGATORS = {kind.name: kind for kind in (SealedSum, SplitSum)}


def fitting(trust: Trust, aggregation: Aggregation | None) -> Aggregation:
    """Return the aggregation that is given, or else the usual one of a trust model."""
    if aggregation is not None:
        instance("aggregation", aggregation, Aggregation, "a way to add up, such as SecureSum()")
    require_kept(trust)
    usual = _BY_AGGREGATORS.get(trust.aggregations[0], PlainSum)()
    aggregation = aggregation or usual
    mine = f"trust={type(trust).__name__}(…)"
    if usual.adds_noise and aggregation.name != usual.name:
        raise ValueError(
            f"{mine} needs aggregation={type(usual).__name__}(), its default: leave aggregation "
            "out, so that counts are sealed for the aggregator"
        )
    if aggregation.adds_noise and aggregation.name not in trust.aggregations:
        model = "TwoAggregators" if isinstance(aggregation, SplitSum) else "TrustedAggregator"
        raise ValueError(
            f"aggregation={type(aggregation).__name__}(…) needs trust={model}(…): "
            f"{mine} names no aggregator to seal counts to"
        )
    if trust.source == "distributed" and not aggregation.hides_parts:
        raise ValueError(
            f"{mine} needs aggregation=SecureSum(): a single client's noise share does not hide "
            "that client's counts"
        )
    return aggregation
