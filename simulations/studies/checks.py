"""Checks as the product runs them, without Flower's messages: halves, counts, witness, sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from flwr_kld.check.decider import Alarm
from flwr_kld.cohort.halves import MANY
from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.design_effect import Clients, Spread, spread
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import ClientLimit, moved_by
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Unit
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


@dataclass(frozen=True, eq=False)
class Halves:
    """What a check published: counts of one half, and the other's sums of scores."""

    first: NoisyCounts  # Of the cells
    witness: Witness  # Learnt from them
    sums: ClientSums  # Of its scores
    spread: Spread  # How far counts spread because clients' records are alike


@dataclass(frozen=True, eq=False)
class Checks:
    """How a federation is checked."""

    reference: Reference  # Π
    trust: Trust  # Who adds the noise
    threshold: float  # Nats of D_θ that are tolerated
    most_records: int  # That a client counts
    cells: int = 1000  # Budget of the partition

    def plan(self, rng: np.random.Generator) -> QueryPlan:
        """Draw a check's cells."""
        return (
            Partition(self.cells).draw(self.reference, rng).allotted(self._trust.allotment.first(1))
        )

    @property
    def _most(self) -> int:
        return self.trust.most_records or self.most_records

    @cached_property
    def _trust(self) -> Trust:
        usual = Partition(self.cells).draw(self.reference, np.random.default_rng(0))
        return self.trust.over(allot(self.trust, usual, {}, theta=THETA))

    def halves(self, federation: Federation, clients: int, rng: np.random.Generator) -> Halves:
        """Run one check on a fresh cohort."""
        plan = self.plan(rng)
        return self.of_records(plan, federation.draw(plan, clients, rng), rng)

    def of_records(
        self,
        plan: QueryPlan,
        asked: Records,
        rng: np.random.Generator,
        recent: RecentChecks | None = None,
    ) -> Halves:
        """Run one check on these records."""
        one, other = self.split(asked, rng)
        first = self.counted(plan, one, rng)
        witness = self.learnt(first, other, recent, by_client=asked.clients >= MANY)
        limit = ClientLimit.of(one.sizes[one.sizes > 0], self._most, {})
        alike = spread(first, Clients(limit.others, limit.single))
        return Halves(first, witness, self.summed(witness, other, rng), alike)

    def split(self, asked: Records, rng: np.random.Generator) -> tuple[Records, Records]:
        """Split a cohort in two halves, as the product does."""
        hides_clients = self.trust.guarantee.unit is Unit.CLIENT
        by_client = hides_clients or asked.clients >= MANY
        return asked.by_client(rng) if by_client else asked.by_record(rng)

    def counted(self, plan: QueryPlan, records: Records, rng: np.random.Generator) -> NoisyCounts:
        """Publish one half's counts: of as many records of a client as the other half counts."""
        records = records.at_most(self._most, rng)
        bits = _bits(rng)
        event = _event(self._trust, records.clients)
        values = records.counts(plan.cells) + sample(noise_in_counts(event, plan), plan.cells, bits)
        exact = event.guarantee.total_is_public
        number = max(float(len(records.cells) if exact else values.sum()), 1.0)
        noise = sample(event.noise, 1, bits) * moved_by(event.guarantee) / allotted(plan).alike
        alike = (float(records.alike() + noise[0]),)
        return NoisyCounts(values, number, event, plan, bits.private, alike)

    def learnt(
        self,
        first: NoisyCounts,
        other: Records,
        recent: RecentChecks | None = None,
        *,
        by_client: bool,
    ) -> Witness:
        """Learn a witness for the other half."""
        guarantee = self.trust.guarantee
        noise = _sums_event(self.trust, other.clients).table.variance ** 0.5
        deciding = Deciding(
            other.clients,
            first.records,
            self.most_records,
            "client" if by_client else "record",
            guarantee,
            noise,
            self.threshold,
        )
        return Witness.from_counts(first, deciding, recent)

    def summed(self, witness: Witness, other: Records, rng: np.random.Generator) -> ClientSums:
        """Publish the other half's sums."""
        event = _sums_event(self.trust, other.clients)
        return released(witness.query_plan(), other, event, rng, _bits(rng))

    def found_at_once(self, witness: Witness, sums: ClientSums, alarm: Alarm) -> bool:
        """Whether a single check alarms, for the divergence or the fraction of records outside."""
        alone, outside = alarm.alone(witness, sums), alarm.outside(witness, sums, 0.0)
        return min(alone.p_value, outside.p_value) < alone.level


@lru_cache(maxsize=64)
def _event(trust: Trust, clients: int) -> Release:
    return trust.event(clients)


@lru_cache(maxsize=64)
def _sums_event(trust: Trust, clients: int) -> Release:
    return trust.sums_event(clients)


def _bits(rng: np.random.Generator) -> SeededBits:
    return SeededBits(int(rng.integers(2**63)))
