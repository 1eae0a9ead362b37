"""What every way of adding up clients' counts offers a check."""

from __future__ import annotations

from typing import Protocol

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.strategies.exchange import Collected, Exchange


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
