"""What every trust model offers the strategy."""

from __future__ import annotations

from typing import Protocol

from flwr.serverapp import Grid

from flwr_kld.counts import ClearSum, NoisyCounts
from flwr_kld.ledger import Cost
from flwr_kld.privacy import Adjacency, BitSource, Unit
from flwr_kld.query import QueryPlan
from flwr_kld.release_terms import ReleaseTerms
from flwr_kld.scalar import NoisyScalar
from flwr_kld.strategies.cohort import Participant
from flwr_kld.strategies.exchange import Collected, Exchange
from flwr_kld.sum_terms import NoiseTerms


class Trust(Protocol):
    """Who adds the noise, and how much."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    @property
    def epsilon(self) -> float:
        """Asked for, in nats, for each check."""
        ...

    @property
    def delta(self) -> float:
        """Asked for, for each check."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """Between which federations."""
        ...

    @property
    def unit(self) -> Unit:
        """For whom."""
        ...

    @property
    def noise_terms(self) -> NoiseTerms | None:
        """Noise that clients add; None if they add none."""
        ...

    @property
    def release_terms(self) -> ReleaseTerms | None:
        """What an aggregator is to do; None where there is none."""
        ...

    @property
    def least_clients(self) -> int:
        """Fewest clients in a sum."""
        ...

    @property
    def most_records(self) -> int:
        """Records a client may count; 0 for no limit."""
        ...

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; `survivors` in the sum, by default the fewest."""
        ...

    def prepare(self, plan: QueryPlan, clients: int) -> None:
        """Refuse, before anything is counted, a plan whose release could fail for some counts.

        Raises
        ------
        ValueError
            Why; from public numbers only.
        """
        ...

    def publish(self, clear: ClearSum, bits: BitSource) -> NoisyCounts | NoisyScalar:
        """Turn a cohort's sum into something public: the one place where privacy is spent."""
        ...


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
        """Leave out who is there and is no client."""
        ...

    def collect(self, exchange: Exchange, noise: NoiseTerms | None, least: int) -> Collected:
        """Ask the cohort; at least `least` clients must be in the sum."""
        ...
