"""What every predictor does: ask, predict, learn from reports, and outlive its process."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np

from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Adjacency, Guarantee, Unit
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.local_report import LocalReport, LocalReports
from flwr_kld.predictors.readouts import Leader

State = dict[str, Any]
"""JSON-able."""


def public_hash(round: int, client: str) -> int:
    """256 bits that pick a client's query: of round and client alone, so blind to any data."""
    return int.from_bytes(hashlib.sha256(f"flwr-kld predictor {round} {client}".encode()).digest())


class LocalQuery(Protocol):
    """The part of a query that a client needs."""

    @property
    def labels(self) -> int:
        """M, the size of the domain that labels are of."""
        ...

    def delta(self, epsilon: float) -> Fraction:
        """Smallest delta, from above, at which a report hides its label at `epsilon` nats."""
        ...

    def to_config(self) -> dict[str, str | int | float | bytes]:
        """Return the query as values of a Flower ConfigRecord."""
        ...

    def answer(self, label: int, bits: BitSource) -> tuple[int, ...]:
        """Privatise one label, 0..M-1: draw the symbol that is reported."""
        ...


class Predictor(ABC):
    """Server-side state that learns which hypothesis clients' labels follow.

    Clients' privacy does not rest on it: each report is private by itself.
    """

    def __init__(self, hypotheses: Hypotheses, epsilon: float, delta: float) -> None:
        self.guarantee = Guarantee(epsilon, delta, Adjacency.REPLACE_ONE, Unit.CLIENT)
        self.hypotheses = hypotheses

    @property
    def epsilon(self) -> float:
        """Of one report, in nats."""
        return self.guarantee.epsilon

    @property
    def delta(self) -> float:
        """Of one report."""
        return self.guarantee.delta

    @abstractmethod
    def query_of(self, round: int, client: str, context: str = "") -> int:
        """Which query a client is asked: a public function of round and client, never of data."""

    @abstractmethod
    def query(self, number: int, context: str = "") -> LocalQuery:
        """Return a query by its number."""

    @abstractmethod
    def check(self, report: LocalReport) -> None:
        """Raise InvalidReply unless the report's query can give its symbol."""

    @abstractmethod
    def update(self, reports: LocalReports) -> None:
        """Learn from a batch of any size."""

    def settle(self, before: int) -> None:  # noqa: B027  (most have nothing to do)
        """Fold all rounds below `before` together, where rounds are kept apart."""

    @property
    @abstractmethod
    def log_weights(self) -> Floats:
        """Log-weights for the next report, shape [K]."""

    @property
    def weights(self) -> Floats:
        """Weight of each hypothesis for the next report, shape [K], summing to 1."""
        return np.asarray(np.exp(self.log_weights))

    @property
    @abstractmethod
    def leader(self) -> Leader:
        """The leading hypothesis, its odds, and how far one report moves them."""

    @property
    def mixture(self) -> Floats | None:
        """Proportions of the hypotheses, shape [K], that explain the reports; None if not known."""
        return None

    @property
    def refuted(self) -> bool | None:
        """Whether reports refute every hypothesis; None if that is not tested."""
        return None

    def risk_bound(self, rounds: int, batch: int, context: str = "") -> Floats | None:
        """Bound on the KL-risk of some rounds of `batch` reports, for each true hypothesis."""
        return None

    def predict(self, context: str = "") -> Floats:
        """Distribution of the next label, shape [M]."""
        return self.weights @ self.hypotheses.at(context).probabilities

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in what another predictor of the same kind has learnt from other reports."""

    @abstractmethod
    def state(self) -> State:
        """Return all that was learnt, as JSON-able values."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Continue from a state that a predictor of the same set-up returned."""
