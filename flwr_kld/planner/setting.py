"""What an operator can choose before a check is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flwr_kld.arguments import keep, real, whole
from flwr_kld.counts import LARGEST_CLIENT
from flwr_kld.inference.estimators.score import check_theta
from flwr_kld.inference.evidence import check_threshold
from flwr_kld.inference.witness import check_level
from flwr_kld.privacy import Adjacency, Guarantee
from flwr_kld.query import Partition

Trust = Literal["trusted", "trusted-aggregator", "distributed"]
Aggregation = Literal["plain-sum", "secure-sum", "sealed-sum"]

_AGGREGATIONS: dict[Trust, tuple[Aggregation, ...]] = {
    "trusted": ("plain-sum", "secure-sum"),
    "trusted-aggregator": ("sealed-sum",),
    "distributed": ("secure-sum",),
}
_MOST_CLIENTS: dict[Aggregation, int] = {
    "plain-sum": 10**9,
    "sealed-sum": 10**9,
    "secure-sum": 10**6,
}
"""Of a secure sum every client knows all others' keys: 100 MB for a million."""
SHARE_DELTA = 1e-9
"""Delta of distributed noise; discrete Laplace shares use next to nothing of it."""
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
    epsilon : float
        Of a check, in nats.
    threshold : float or None
        Divergence that is tolerated, in nats, >= 0: the check splits its records in two halves and
        decides by the lower confidence bound. None: it counts all of them and decides nothing.
    cells : int
        Budget of the partition.
    adjacency : Adjacency
        Between which federations.
    trust : {"trusted", "trusted-aggregator", "distributed"}
        Who adds the noise.
    aggregation : {"plain-sum", "secure-sum", "sealed-sum"}, optional
        How counts become a sum; by default the first that the trust model allows.
    relied_on : float
        In (0, 1]: part of the answering clients whose noise shares must suffice, in the
        distributed model; the others' noise comes on top.
    design_effect : float
        >= 1: variance of a share over cohorts, relative to independent records; see
        `design_effect_of`.
    theta : float
        θ of D_θ, in [0, 1).
    level : float
        Confidence of the bound, in [0.5, 1).
    power : float
        Probability, in (0, 1), with which a drift is to be found.
    groups : int
        Groups of the second half, >= 3.
    population : int, optional
        Clients among whom cohorts rotate; by default those of one check.
    buckets : int
        Buckets among which each client's records rotate, >= 1; `records` are those of one bucket.
    checks : int
        A year, at most one a minute.

    Raises
    ------
    ValueError
        If a number is out of range, or trust model and aggregation do not fit.
    """

    clients: int
    records: float
    epsilon: float
    threshold: float | None = 0.0
    cells: int = 1000
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    trust: Trust = "trusted"
    aggregation: Aggregation | None = None
    relied_on: float = 0.8
    design_effect: float = 1.0
    theta: float = 0.01
    level: float = 0.95
    power: float = 0.8
    groups: int = 10
    population: int | None = None
    buckets: int = 1
    checks: int = 365

    def __post_init__(self) -> None:
        if self.trust not in _AGGREGATIONS:
            raise ValueError(f"unknown trust model {self.trust!r}: choose from {[*_AGGREGATIONS]}")
        fitting = _AGGREGATIONS[self.trust]
        if self.aggregation is None:
            object.__setattr__(self, "aggregation", fitting[0])
        if self.aggregation not in fitting:
            raise ValueError(f"{self.trust!r} goes with {' or '.join(fitting)}")
        most = _MOST_CLIENTS[self.aggregation]
        keep(
            self,
            clients=whole("clients", self.clients, least=2, most=most),
            records=real("records", self.records, above=0, most=LARGEST_CLIENT),
            epsilon=self.guarantee.epsilon,
            cells=Partition(self.cells).cells,
            relied_on=real("relied_on", self.relied_on, above=0, most=1),
            design_effect=real("design_effect", self.design_effect, least=1),
            theta=check_theta(self.theta),
            level=check_level(self.level),
            power=real("power", self.power, above=0, below=1),
            groups=whole("groups", self.groups, least=3),
            buckets=whole("buckets", self.buckets, least=1),
            checks=whole("checks", self.checks, least=1, most=_MOST_CHECKS),
        )
        if self.threshold is not None:
            keep(self, threshold=check_threshold(self.threshold))
        if self.population is not None:
            keep(
                self, population=whole("population", self.population, least=self.clients, most=most)
            )
        if self.total < max(2, self.groups * self.design_effect):
            raise ValueError(
                f"{self.total} records in an exchange are too few: each of {self.groups} groups "
                "needs at least one independent one"
            )
        if self.buckets > 1 and self.population not in (None, self.clients):
            raise ValueError("either clients rotate (population) or their records do (buckets)")

    @property
    def guarantee(self) -> Guarantee:
        """What each exchange promises; the noise of the distributed model is not quite pure."""
        delta = SHARE_DELTA if self.trust == "distributed" else 0.0
        return Guarantee(self.epsilon, delta, self.adjacency)

    @property
    def total(self) -> int:
        """N, records that one exchange counts: half of the check's if it decides."""
        exchanges = 1 if self.threshold is None else 2
        return int(self.clients * self.records / exchanges)

    @property
    def answering(self) -> int:
        """Clients in one exchange: a check that decides asks half of them in each."""
        return self.clients if self.threshold is None else max(self.clients // 2, 2)


def design_effect_of(records: float, correlation: float) -> float:
    """``1 + (m - 1) ρ``: what clusters of m alike records cost (Kish 1965, §5.4).

    Parameters
    ----------
    records : float
        m, of a client, that are counted together.
    correlation : float
        ρ, the intraclass correlation of an indicator of a cell: 0 for independent records, 1 for
        clients whose records are all the same.
    """
    records = real("records", records, least=1)
    return 1 + (records - 1) * real("correlation", correlation, least=0, most=1)
