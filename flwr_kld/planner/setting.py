"""What an operator can choose before a check is run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.score import check_level, check_theta
from flwr_kld.kernel.arguments import keep, real, whole
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import LARGEST_CLIENT
from flwr_kld.planner.allotment import RESOLUTION
from flwr_kld.planner.drift import Law
from flwr_kld.query.noisy import NoisyCounts, noise_in_counts
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_trust

_MOST_CLIENTS = {
    "plain-sum": 10**9,
    "sealed-sum": 10**9,
    "split-sum": 10**9,
    "secure-sum": 10**6,
}
"""Of a secure sum every client knows all others' keys: 100 MB for a million."""

_MOST_CHECKS = 366 * 24 * 60
"""A year: schedules have no more than one a minute."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to check, and how often.

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
        >= 1: variance of a fraction over cohorts, relative to independent records; see
        `design_effect_of`.
    theta : float
        θ of D_θ, in [0, 1).
    level : float
        Confidence of the bound, in [0.5, 1).
    resolution : float
        Nats beyond the threshold that "no drift" has to exclude, > 0.
    power : float
        Probability, in (0, 1), with which a drift is to be found.
    population : int, optional
        Clients among whom cohorts rotate; by default those of one check.
    checks : int
        A year, at most one a minute.

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
    theta: float = 0.01
    level: float = 0.95
    resolution: float = RESOLUTION
    power: float = 0.8
    population: int | None = None
    checks: int = 365

    def __post_init__(self) -> None:
        require_trust(self.trust)
        fitting = self.trust.aggregations
        if self.aggregation is None:
            object.__setattr__(self, "aggregation", fitting[0])
        if self.aggregation not in fitting:
            raise ValueError(f"{self.trust.name!r} goes with {' or '.join(fitting)}")
        most = _MOST_CLIENTS[self.aggregation]
        most_records = self.trust.most_records or LARGEST_CLIENT
        keep(
            self,
            clients=whole("clients", self.clients, least=2, most=most),
            records=real("records", self.records, above=0, most=most_records),
            cells=Partition(self.cells).cells,
            design_effect=real("design_effect", self.design_effect, least=1),
            theta=check_theta(self.theta),
            level=check_level(self.level),
            resolution=real("resolution", self.resolution, above=0, unit="nats"),
            power=real("power", self.power, above=0, below=1),
            checks=whole("checks", self.checks, least=1, most=_MOST_CHECKS),
        )
        if self.threshold is not None:
            keep(self, threshold=real("threshold", self.threshold, least=0, unit="nats"))
        if self.population is not None:
            keep(
                self, population=whole("population", self.population, least=self.clients, most=most)
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
        }


def design_effect_of(records: float, correlation: float) -> float:
    """``1 + (m - 1) ρ``: what clusters of m alike records cost (Kish 1965, §5.4)."""
    records = real("records", records, least=1)
    return 1 + (records - 1) * real("correlation", correlation, least=0, most=1)


def draw_cohorts(
    law: Law, records: int, design_effect: float, number: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw counts of cohorts of clustered records, shape [number, len(law)].

    Dirichlet-multinomial: counts have the multinomial's variance times the design effect
    ``(N + A) / (1 + A)``, A the concentration.
    """
    laws = np.tile(law, (number, 1))
    if design_effect > 1:
        laws = generator.standard_gamma((records - design_effect) / (design_effect - 1) * laws)
        laws /= laws.sum(axis=1, keepdims=True)
    return generator.multinomial(records, laws)


def published(
    counts: NDArray[np.int64], plan: QueryPlan, event: Release, bits: BitSource
) -> NoisyCounts:
    """Noise counts, shape [plan.length], as a release does."""
    noisy = counts + sample(noise_in_counts(event, plan), len(counts), bits)
    records = float((counts if plan.layout.total_is_public(event.guarantee) else noisy).sum())
    return NoisyCounts(noisy, max(records, 1.0), event, plan, bits.private)
