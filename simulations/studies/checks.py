"""Checks as the product runs them, without Flower's messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from flwr_kld.check.decider import Alarm
from flwr_kld.cohort.halves import About, whom
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.decision import Alone, Outside
from flwr_kld.inference.estimators.design_effect import Clients, Spread, spread
from flwr_kld.inference.outside import outside_by_counts, outside_limits, outside_sum
from flwr_kld.inference.whole_cohort import WholeCohort, whole_cohort
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import ClientLimit, moved_by
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.release import Release
from flwr_kld.planner.allotment import allot
from flwr_kld.query.noisy import ClientSums, NoisyCounts, allotted, noise_in_counts
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.studies.drifts import THETA
from flwr_kld.simulations.studies.federations import Federation
from flwr_kld.simulations.studies.records import Records, released
from flwr_kld.trust import Trust

_POPULATION = "the population"


@dataclass(frozen=True, eq=False)
class Halves:
    """What a check published: counts of one half, and the other's sums of scores."""

    first: NoisyCounts  # Of the cells
    witness: Witness  # Learnt from them
    sums: ClientSums  # Of its scores
    spread: Spread  # How far counts spread because clients' records are alike

    @property
    def evidence(self) -> float:
        """What a check adds to the logarithm of the evidence."""
        return log_evidence(self.witness, self.sums)


@dataclass(frozen=True, eq=False)
class Whole:
    """What a check about its own clients published."""

    first: NoisyCounts  # Of the cells, over all records
    threshold: float  # Nats that are tolerated
    _read: dict[float, WholeCohort] = field(default_factory=dict, repr=False)

    @property
    def evidence(self) -> float:
        """What a check adds to the logarithm of the evidence, in a year of checks."""
        return self.read(Alarm().level_at_once).log_evidence(self.threshold)

    def read(self, error: float) -> WholeCohort:
        """Read the counts once for tests that err with about this probability."""
        if error not in self._read:
            self._read[error] = whole_cohort(
                self.first, theta=THETA, threshold=self.threshold, error=error
            )
        return self._read[error]


@dataclass(frozen=True, eq=False)
class Checks:
    """How a federation is checked."""

    reference: Reference  # Π
    trust: Trust  # Who adds the noise
    threshold: float  # Nats of D_θ that are tolerated
    most_records: int  # That a client counts
    about: About | None = None  # By default the population, if many clients are asked

    def plan(self, rng: np.random.Generator) -> QueryPlan:
        """Draw a check's cells."""
        return Partition().draw(self.reference, rng).allotted(self._trust.allotment.first(1))

    @property
    def _most(self) -> int:
        return self.trust.most_records or self.most_records

    @cached_property
    def _trust(self) -> Trust:
        usual = Partition().draw(self.reference, np.random.default_rng(0))
        drawn = (self.about or _POPULATION) == _POPULATION
        return self.trust.over(allot(self.trust, usual, {}, theta=THETA, drawn=drawn))

    def run(self, federation: Federation, clients: int, rng: np.random.Generator) -> Halves | Whole:
        """Run one check on a fresh cohort."""
        plan = self.plan(rng)
        return self.of_records(plan, federation.draw(plan, clients, rng), rng)

    def of_records(
        self, plan: QueryPlan, asked: Records, rng: np.random.Generator
    ) -> Halves | Whole:
        """Run one check on these records."""
        if self.about_themselves(asked.clients):
            return Whole(self.counted(plan, asked, rng), self.threshold)
        one, other = asked.by_client(rng)
        first = self.counted(plan, one, rng)
        witness = self.learnt(first, other)
        limit = ClientLimit.of(one.sizes[one.sizes > 0], self._most, {})
        alike = spread(first, Clients(limit.others, limit.single))
        return Halves(first, witness, self.summed(witness, other, rng), alike)

    def about_themselves(self, clients: int) -> bool:
        """Whether a check decides about the very clients that it asks."""
        if self.trust.guarantee.protects != "record":
            return False
        return (self.about or whom(clients, clients + 1, 2, self.trust.guarantee)) != _POPULATION

    def counted(self, plan: QueryPlan, records: Records, rng: np.random.Generator) -> NoisyCounts:
        """Publish one half's counts: of as many records of a client as the other half counts."""
        records = records.at_most(self._most, rng)
        bits = _bits(rng)
        event = _event(self._trust, records.clients)
        values = records.counts(plan.cells) + sample(noise_in_counts(event, plan), plan.cells, bits)
        exact = plan.layout.total_is_public(event.guarantee)
        number = max(float(len(records.cells) if exact else values.sum()), 1.0)
        noise = sample(event.noise, 1, bits) * moved_by(event.guarantee) / allotted(plan).alike
        alike = (float(records.alike() + noise[0]),)
        return NoisyCounts(values, number, event, plan, bits.private, alike)

    def learnt(self, first: NoisyCounts, other: Records) -> Witness:
        """Learn a witness for the other half."""
        guarantee = self.trust.guarantee
        noise = _sums_event(self.trust, other.clients).table.variance ** 0.5
        deciding = Deciding(
            other.clients,
            first.records,
            self.most_records,
            guarantee,
            noise,
            self.threshold,
        )
        return Witness.from_counts(first, deciding)

    def summed(self, witness: Witness, other: Records, rng: np.random.Generator) -> ClientSums:
        """Publish the other half's sums."""
        event = _sums_event(self.trust, other.clients)
        return released(witness.query_plan(), other, event, rng, _bits(rng))

    def found_at_once(self, check: Halves | Whole, alarm: Alarm) -> bool:
        """Whether a single check alarms, for the divergence or the fraction of records outside."""
        alone, outside = single(check, alarm)
        return min(alone.p_value, outside.p_value) < alone.level


def single(check: Halves | Whole, alarm: Alarm) -> tuple[Alone, Outside]:
    """Return what a single check shows by itself, where nothing outside is tolerated."""
    level = alarm.level_at_once
    if isinstance(check, Whole):
        alone = Alone(check.read(level).p_value(check.threshold), level, "record")
        return alone, alarm.outside(*outside_by_counts(check.first, 0.0, level=alarm.level), 0.0)
    witness, sums = check.witness, check.sums
    p_value = 1.0
    if witness.plan.outside.any():
        p_value = outside_sum(witness, sums, level).p_value()
    limits = outside_limits(witness, sums, level=alarm.level)
    return alarm.alone(witness, sums), alarm.outside(limits, p_value, 0.0)


@lru_cache(maxsize=64)
def _event(trust: Trust, clients: int) -> Release:
    return trust.event(clients)


@lru_cache(maxsize=64)
def _sums_event(trust: Trust, clients: int) -> Release:
    return trust.sums_event(clients)


def _bits(rng: np.random.Generator) -> SeededBits:
    return SeededBits(int(rng.integers(2**63)))
