"""What an operator can choose before a check is run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from flwr_kld.ask.partition import Partition
from flwr_kld.common.guesses import suggests
from flwr_kld.infer.estimators.score import check_level
from flwr_kld.kernel.arguments import finite, integer, set_fields
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import LARGEST_CLIENT
from flwr_kld.ledger.budget import UNBOUNDED, Budget
from flwr_kld.ledger.composition import Composed, added, of_person
from flwr_kld.ledger.cost import ROUNDS, Cost
from flwr_kld.trust import Trust
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.trust_model import require_trust

_MOST_CLIENTS = {
    "plain-sum": 10**9,
    "sealed-sum": 10**9,
    "split-sum": 10**9,
    "secure-sum": 10**6,
}
"""Of a secure sum every client knows all others' keys: 100 MB for a million."""

_YEARLY_DELTA = 1e-6
_YEAR = 365

_EXCHANGES = {"plain-sum": 1, "secure-sum": 4, "sealed-sum": 2, "split-sum": 4}

_WAIT = 5.0
"""Seconds of an exchange of messages on a deployment, whose nodes poll: 3 to 10."""

_CPU = {"plain-sum": 2e-4, "secure-sum": 1.3e-3, "sealed-sum": 4e-4, "split-sum": 4e-4}
"""Seconds of the server for each client, on one core: 0.2 ms a message of Flower's, and 0.5 ms for
the sum's own arithmetic (``simulations/bench/secure_sum.py``)."""


@suggests(arguments=dict.fromkeys(("epsilon", "delta"), "trust=Trusted(epsilon=…, delta=…)"))
@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to check.

    Parameters
    ----------
    clients : int
        That answer in a check, at most 10^9; 10^6 in secure sums.
    records : float
        Mean number that a client is asked about in a check, > 0 and at most what one may count.
    trust : Trust
        Who adds the noise, and how much; releases counts. As many clients must answer as its noise
        relies on; others' noise comes on top.
    threshold : float or None
        Divergence that is tolerated, in nats, >= 0. None: the check decides nothing.
    cells : int
        Budget of the partition.
    aggregation : {"plain-sum", "secure-sum", "sealed-sum", "split-sum"}, optional
        How counts become a sum; by default the first that the trust model allows.
    design_effect : float
        >= 1: variance of a fraction over cohorts, relative to independent records. With m records
        of each client that correlate with ρ, ``1 + (m - 1) ρ`` (Kish 1965, §5.4).
    level : float
        Confidence of the bound, in [0.5, 1).
    population : int, optional
        Clients among whom cohorts rotate; by default those of one check.
    checks : int
        Of a year, 1 to 10^6; by default one every day.
    rounds : int
        Of DP training beside the checks, in a year; at most 10^6.
    noise_multiplier : float
        Of these rounds, > 0.

    Raises
    ------
    ValueError
        If a number is out of range, or trust model and aggregation do not fit.
    """

    clients: int
    records: float
    trust: Trust
    threshold: float | None = 0.0
    cells: int = 1000
    aggregation: str | None = None
    design_effect: float = 1.0
    level: float = 0.95
    population: int | None = None
    checks: int = _YEAR
    rounds: int = 0
    noise_multiplier: float = 1.0

    def __post_init__(self) -> None:
        require_trust(self.trust)
        fitting = self.trust.aggregations
        if self.aggregation is None:
            object.__setattr__(self, "aggregation", fitting[0])
        if self.aggregation not in fitting:
            raise ValueError(f"{self.trust.name!r} goes with {' or '.join(fitting)}")
        most = _MOST_CLIENTS[self.aggregation]
        most_records = self.trust.guarantee.most_records or LARGEST_CLIENT
        set_fields(
            self,
            clients=integer("clients", self.clients, least=2, most=most),
            records=finite("records", self.records, above=0, most=most_records),
            cells=Partition(self.cells).cells,
            design_effect=finite("design_effect", self.design_effect, least=1),
            level=check_level(self.level),
            checks=integer("checks", self.checks, least=1, most=10**6),
            rounds=integer("rounds", self.rounds, least=0, most=10**6),
            noise_multiplier=finite("noise_multiplier", self.noise_multiplier, above=0),
        )
        if self.threshold is not None:
            set_fields(self, threshold=finite("threshold", self.threshold, least=0, unit="nats"))
        if self.population is not None:
            set_fields(
                self,
                population=integer("population", self.population, least=self.clients, most=most),
            )
        if self.clients < self.trust.min_clients:
            raise ValueError(
                f"{self.clients} clients are too few: {self.trust.name!r} needs "
                f"{self.trust.min_clients}"
            )
        if self.total <= max(2, self.design_effect):
            raise ValueError(
                f"{self.total} records are too few for a design effect of {self.design_effect:g}"
            )

    @property
    def epsilon(self) -> float:
        """Of a check, in nats."""
        return self.trust.guarantee.epsilon

    @cached_property
    def event(self) -> Release:
        """The release of a check, if all whom it asks answer."""
        return self.trust.event(self.clients)

    @property
    def total(self) -> int:
        """N, records that a check counts."""
        return int(self.clients * self.records)

    @property
    def drawn(self) -> bool:
        """Whether the clients of a check are a part of those who are there."""
        return (self.population or self.clients) > self.clients

    @property
    def checks_per_person(self) -> int:
        """Checks of a year that touch one person at most: all take turns."""
        return math.ceil(self.checks * self.clients / (self.population or self.clients))

    @property
    def epsilon_per_year(self) -> float:
        """Epsilon, in nats, at `delta_per_year`, of all checks of a year that touch one person."""
        return float(self._together(self._checks).epsilon)

    @property
    def delta_per_year(self) -> float:
        """At most 1e-6, unless one person's checks cannot be composed at so small a delta."""
        return float(self._together(self._checks).delta)

    @property
    def epsilon_of_training(self) -> float:
        """Epsilon, in nats, at delta 1e-6, of a year's rounds, each of which may ask everybody."""
        return float(self._together(self._training).epsilon) if self.rounds else 0.0

    @property
    def epsilon_with_training(self) -> float:
        """Epsilon, in nats, at `delta_with_training`, of a year's checks and rounds together."""
        return float(self._with_training.epsilon)

    @property
    def delta_with_training(self) -> float:
        """The same as `delta_per_year` of both together."""
        return float(self._with_training.delta)

    @property
    def _with_training(self) -> Composed:
        return self._together(self._checks, *([self._training] if self.rounds else []))

    @property
    def _checks(self) -> tuple[Cost, int]:
        times = self.checks_per_person / self.trust.nights
        if isinstance(self.trust, Standing):  # which also ends by its days, however few its checks
            times = max(times, _YEAR / (self.trust.days or self.trust.nights))
        return self.trust.cost(), math.ceil(times)

    @property
    def _training(self) -> tuple[Cost, int]:
        protects, delta = self.trust.guarantee.protected, _YEARLY_DELTA / ROUNDS
        return Cost.training(self.noise_multiplier, delta, protects), self.rounds

    @property
    def _yearly(self) -> Budget:
        return Budget(1.0, _YEARLY_DELTA, protects=self.trust.guarantee.protected)

    def _together(self, *kinds: tuple[Cost, int]) -> Composed:
        """Compose as a ledger does; add up a single release, and what its delta cannot hold."""
        simple = added(kinds)
        if sum(times for _, times in kinds) == 1:
            return simple
        found = of_person(kinds, self._yearly)
        return simple if found.epsilon >= UNBOUNDED else found

    @property
    def seconds(self) -> float:
        """Seconds of a check. Rough: how often nodes poll decides."""
        name = self.aggregation or self.trust.aggregations[0]
        return _EXCHANGES[name] * _WAIT + self.clients * _CPU[name]

    def to_dict(self) -> dict[str, Any]:
        """Return one flat, JSON-able row: the trust model's numbers beside the others."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        guarantee = self.trust.guarantee
        return {
            **values,
            "trust": self.trust.name,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "protects": guarantee.protected,
            "min_clients": self.trust.min_clients,
            "checks_per_person": self.checks_per_person,
            "epsilon_per_year": self.epsilon_per_year,
            "delta_per_year": self.delta_per_year,
            "epsilon_of_training": self.epsilon_of_training,
            "epsilon_with_training": self.epsilon_with_training,
            "delta_with_training": self.delta_with_training,
            "seconds": self.seconds,
        }
