"""Checks as the product runs them, without Flower's messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.alarm import RESOLUTION, Alarm
from flwr_kld.infer.estimators.score import Floats
from flwr_kld.kernel.count import ClientSizes, alike_sensitivity
from flwr_kld.kernel.law import BitSource, SeededBits, sample
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import Released
from flwr_kld.planner.allotment import allot
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.column import ColumnReport
from flwr_kld.report.conclusions import Conclusions
from flwr_kld.report.decider import Decider
from flwr_kld.simulations.studies.records import Integers, Records
from flwr_kld.trust import Trust
from flwr_kld.trust.distributed import Distributed


def measured(
    plan: QueryPlan,
    event: Release,
    counts: Integers,
    alike: Sequence[float] | Floats,
    sizes: Integers,
    bits: BitSource,
    *,
    drawn: bool,
    seen: bool = True,
) -> CohortRelease:
    """Release the counts of clients of these sizes, and the alike records of each column.

    Clients are `drawn` from more; their sizes are `seen` by whoever adds up.
    """
    alike = (
        np.asarray(alike, dtype=np.float64)
        * plan.allotment.alike
        / alike_sensitivity(event.guarantee)
    )
    exact = np.concatenate([counts * plan.layout.steps[: plan.cells], np.rint(alike)])
    values = exact[: plan.length].astype(np.int64) + sample(event.noise, plan.length, bits)
    public = plan.layout.total_is_public(event.guarantee)
    number = float(sizes.sum()) if public else plan.layout.records(values[: plan.cells])
    return CohortRelease(
        noisy(Released(values, number, len(sizes), event, bits.private), plan),
        asked=AskedClients(_clients(len(sizes)), drawn=drawn),
        survivors=len(sizes),
        left_out={},
        traffic=(0.0, 0.0),
        most_records=event.guarantee.most_records,
        sizes=ClientSizes.of(sizes.tolist(), "a client") if public and seen else None,
        enforces_limits=seen,
    )


@lru_cache(maxsize=16)
def _clients(number: int) -> list[Participant]:
    return [Participant(i) for i in range(number)]


@dataclass(frozen=True, eq=False)
class Checks:
    """How a federation is checked."""

    reference: Reference  # Π
    trust: Trust  # Who adds the noise
    threshold: float  # Nats of D_θ that are tolerated in each column
    drawn: bool  # Whether the clients of a check are drawn from more
    alarm: Alarm = field(default_factory=Alarm)

    def plan(self, rng: np.random.Generator) -> QueryPlan:
        """Draw a check's cells."""
        return Partition().draw(self.reference, rng).allotted(self._trust.allotment)

    def event(self, clients: int) -> Release:
        """Return what so many clients release."""
        return _event(self._trust, clients)

    def ask(self, plan: QueryPlan, records: Records, rng: np.random.Generator) -> CohortRelease:
        """Ask for these records of one column."""
        if most_records := self.trust.guarantee.most_records:
            records = records.at_most(most_records, rng)
        counts, event = records.counts(plan.cells), self.event(records.clients)
        return measured(
            plan, event, counts, [records.alike()], records.sizes, bits_of(rng),
            drawn=self.drawn, seen=not isinstance(self.trust, Distributed),
        )  # fmt: skip

    def conclude(self, check: CohortRelease) -> dict[str, ColumnReport]:
        """Conclude a check that stands alone."""
        return self._conclusions.conclude(check, "study")[0]

    @cached_property
    def decider(self) -> Decider:
        """What decides about one of the columns."""
        columns = self.reference.columns
        name, reference = next(iter(columns.items()))
        alarm = self.alarm.shared(len(columns))
        return Decider(*self._tolerated, alarm, reference, name, len(columns))

    @cached_property
    def _conclusions(self) -> Conclusions:
        each = dict.fromkeys(self.reference.columns, self._tolerated)
        return Conclusions(self.reference, each, self.alarm)

    @property
    def _tolerated(self) -> tuple[float, float]:
        return self.threshold, -math.expm1(-self.threshold)

    @cached_property
    def _trust(self) -> Trust:
        usual = Partition().draw(self.reference, np.random.default_rng(0))
        trust = self.trust.over(self.reference.domain.per_record)
        allowed = dict.fromkeys(self.reference.columns, self.threshold + RESOLUTION)
        return trust.over(allot(trust, usual, allowed, drawn=self.drawn))


@lru_cache(maxsize=64)
def _event(trust: Trust, clients: int) -> Release:
    return trust.event(clients)


def bits_of(rng: np.random.Generator) -> SeededBits:
    """Return seeded bits for noise."""
    return SeededBits(int(rng.integers(2**63)))
