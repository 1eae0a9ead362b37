"""The settings in which `coverage` tries bound and interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.labels import Labels
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.inference.witness import Witness
from flwr_kld.planner.drift import Drift, Shape
from flwr_kld.privacy import Guarantee
from flwr_kld.privacy.bits import SeededBits
from flwr_kld.privacy.calibrate import calibrated_gaussian, calibrated_laplace
from flwr_kld.privacy.event import PrivacyEvent
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.privacy.share_event import calibrate_shares
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import HEAD, QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.digits import load_digits
from flwr_kld.simulations.handwriting.source import load_source
from flwr_kld.simulations.studies.cohorts import (
    Clustered,
    Cohorts,
    Counts,
    Independent,
    Silos,
    Writers,
    merged,
    published,
)
from flwr_kld.simulations.studies.hands import OTHER_HAND, Hands

LEVEL, THETA = 0.95, 0.01
_HERE, _THERE, _POOL = range(600), range(1_000_000, 1_002_000), 400
"""Virtual writers who are clients, those who make the reference, and images of each."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One line of a table.

    Parameters
    ----------
    name : str
        What is special about it.
    plan : QueryPlan
        Cells.
    cohorts : Cohorts
        Of a population whose law is known.
    event : PrivacyEvent
        Noise of each half.
    theta : float
        θ of D_θ.
    """

    name: str
    plan: QueryPlan
    cohorts: Cohorts
    event: PrivacyEvent
    theta: float = THETA

    @cached_property
    def truth(self) -> float:
        """D_θ over the cells, in nats."""
        return max(skewed_divergence(self.plan.mass, self.cohorts.shares, self.theta), 0.0)

    def check(
        self, groups: int, rng: np.random.Generator
    ) -> tuple[NoisyCounts, Witness, Counts, NoisyCounts]:
        """Draw one check: first half, witness, second half's exact and published counts."""
        bits = SeededBits(int(rng.integers(2**63)))
        first = published(self.cohorts.half(1, rng), self.plan, self.event, bits)
        witness = Witness.from_counts(first, theta=self.theta, groups=groups, level=LEVEL)
        exact = merged(self.cohorts.half(groups, rng), witness.level_of)
        return first, witness, exact, published(exact, witness.query_plan(), self.event, bits)


def bound_settings(data: Path | None) -> list[Setting]:
    """List the settings of the bound."""
    plan, one = _zipf(600, 0.9), _laplace(1.0)

    def records(nats: float, number: int, shape: Shape = "spread") -> Independent:
        return Independent(_moved(plan, nats, shape), number)

    def clients(
        nats: float, number: int, each: int, alike: float, shape: Shape = "spread"
    ) -> Clustered:
        return Clustered(_moved(plan, nats, shape), number, each, alike)

    silos = Silos(np.random.default_rng(0).dirichlet(20 * _moved(plan, 0.4), 5), 1_000)
    gaussian = calibrated_gaussian(Guarantee(1.0, 1e-6))
    plain = Independent(_moved(plan, 0.3, theta=0.0), 5_000)
    return [
        Setting("no drift", plan, Independent(plan.mass, 10_000), one),
        Setting("spread", plan, records(0.1, 10_000), one),
        Setting("spread, little epsilon", plan, records(0.5, 10_000), _laplace(0.3)),
        Setting("spread, large", plan, records(2.0, 10_000), _laplace(3.0)),
        Setting("concentrated", plan, records(0.2, 2_000, "concentrated"), one),
        Setting("few records", plan, records(0.5, 500), one),
        Setting("add-remove", plan, records(0.3, 5_000), _laplace(1.0, Adjacency.ADD_REMOVE)),
        Setting("Gaussian noise", plan, records(0.3, 5_000), gaussian),
        Setting("plain KL, theta 0", plan, plain, one, 0.0),
        Setting("clients", plan, clients(0.3, 100, 50, 50.0), one),
        Setting("clients, noise shares", plan, clients(0.3, 100, 50, 50.0), _shares(1.0, 100)),
        Setting("20 clients", plan, clients(0.5, 20, 100, 20.0), one),
        Setting("very different clients", plan, clients(0.5, 100, 50, 5.0), _laplace(3.0)),
        Setting(
            "the same, concentrated",
            plan,
            clients(0.2, 100, 50, 5.0, "concentrated"),
            _laplace(3.0),
        ),
        Setting("the same, large", plan, clients(2.0, 300, 30, 2.0), _laplace(3.0)),
        Setting("5 silos, records in groups", plan, silos, one),
        *_writers(one),
        *(_real_writers(data, one) if data else ()),
    ]


def interval_settings(data: Path | None) -> list[Setting]:
    """List the settings of the interval: few cells."""
    settings = []
    for cells, number, epsilon, theta in (
        (10, 20_000, 1.0, 0.01),
        (20, 20_000, 1.0, 0.05),
        (50, 100_000, 1.0, 0.05),
        (50, 20_000, 6.0, 0.05),
    ):
        plan, event = _zipf(cells, 0.5), _laplace(epsilon)
        for nats in (0.0, 0.01, 0.3):
            shares = _moved(plan, nats, theta=theta)
            name = f"{cells} cells, {nats:g} nats"
            for alike in (200.0, 20.0):
                some = Clustered(shares, 200, number // 200, alike)
                settings.append(Setting(f"{name}, alike {alike:g}", plan, some, event, theta))
            independent = Independent(shares, number)
            settings.append(Setting(name, plan, independent, event, theta))
    three = _laplace(3.0)
    return [*settings, *_writers(three, 16), *(_real_writers(data, three, 16) if data else ())]


def _laplace(epsilon: float, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyEvent:
    """Noise of the trusted model."""
    return calibrated_laplace(Guarantee(epsilon, 0.0, adjacency))


def _shares(epsilon: float, clients: int) -> PrivacyEvent:
    """Noise of the distributed model, where four shares in five are relied on."""
    adjacency = Adjacency.REPLACE_ONE
    share = calibrate_shares(Guarantee(epsilon, 1e-9, adjacency), n_min=4 * clients // 5)
    law = share.noise(clients)
    return PrivacyEvent(
        "distributed", law, adjacency.count_shifts, Guarantee(epsilon, 1e-9, adjacency)
    )


def _zipf(cells: int, slope: float) -> QueryPlan:
    """Give each symbol of a power law a cell."""
    law = np.arange(1.0, cells + 1) ** -slope
    reference = Reference.from_counts(Labels(list(range(cells))), law)
    return Partition(max(cells, 16)).draw(reference, np.random.default_rng(0))


def _moved(
    plan: QueryPlan, nats: float, shape: Shape = "spread", *, theta: float = THETA
) -> Floats:
    """P over the cells of a population at this D_θ."""
    law = Drift(plan.reference, shape).at(nats, theta)
    return np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)


def _writers(event: PrivacyEvent, coarse: int | None = None) -> list[Setting]:
    """Virtual writers of scikit-learn's digits."""
    usual, past = Hands.virtual(_HERE, _POOL), Hands.virtual(_THERE, _POOL)
    ones = Hands.virtual(_HERE, _POOL, digits=(1, 7))
    other = Hands.virtual(_HERE, _POOL, styles=OTHER_HAND)
    drifts = (
        ("writers, no drift", usual, 0.0),
        ("writers, half 1 and 7", ones, 0.5),
        ("writers, mostly 1 and 7", ones, 1.0),
        ("writers, a third in another hand", other, 1 / 3),
    )
    return _handwriting(load_digits(1).patterns(), past, usual, drifts, event, coarse)


def _real_writers(path: Path, event: PrivacyEvent, coarse: int | None = None) -> list[Setting]:
    """Real writers: one half is the reference, the other half are the clients."""
    past, present = load_source(path).split_writers(0)
    usual, ones = Hands.of(present), Hands.of(present.with_labels((1, 7)))
    drifts = (("real writers, no drift", usual, 0.0), ("real writers, half 1 and 7", ones, 0.5))
    return _handwriting(present.patterns(), Hands.of(past), usual, drifts, event, coarse)


def _handwriting(
    domain: BlockPatterns,
    past: Hands,
    usual: Hands,
    drifts: Iterable[tuple[str, Hands, float]],
    event: PrivacyEvent,
    coarse: int | None,
) -> list[Setting]:
    """100 writers of 50 records over 300 cells; or 1,000, at θ = 0.05, over `coarse` cells."""
    reference = Reference.from_probabilities(domain, past.law(domain.size))
    if coarse is None:
        plan = Partition(300).draw(reference, np.random.default_rng(0))
    else:
        plan = _equal_cells(reference, coarse)
    clients, theta = (100, THETA) if coarse is None else (1_000, 0.05)
    return [
        Setting(name, plan, Writers(plan, usual, drifted, part, clients, 50), event, theta)
        for name, drifted, part in drifts
    ]


def _equal_cells(reference: Reference, cells: int) -> QueryPlan:
    """Cells of about equal mass: patterns in the order of their bits."""
    p = reference.probabilities
    before = np.cumsum(p) - p
    cell_of = np.minimum(before * cells, cells - 1).astype(np.int32)
    cell_of = np.unique(cell_of, return_inverse=True)[1].astype(np.int32)
    one = np.ones(int(cell_of.max()) + 1)
    head = np.full(len(one), HEAD)
    return QueryPlan(reference, cell_of.astype(np.int32), 0 * one, one, head)
