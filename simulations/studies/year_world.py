"""The people who write digits in a simulated year, and one day's check of some of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies.checks import Checks, Halves
from flwr_kld.simulations.studies.drifts import THETA
from flwr_kld.simulations.studies.hands import Hands, Writers
from flwr_kld.simulations.studies.records import Integers
from flwr_kld.trust.trusted import Trusted

PEOPLE, COHORT, RECORDS = 14_600, 200, 50
"""In all, asked a day, and fresh records of each of them."""
EPSILON, CELLS = 0.2, 100
_WRITTEN = 100
"""Images that a person's records are drawn from."""
_PAST = range(1_000_000, 1_003_000)
_DRAWS = 50
"""Draws of cells over which a divergence is averaged."""


class World:
    """Everything that is the same in all years."""

    def __init__(self, threshold: float) -> None:
        self._usual = Hands.virtual(range(PEOPLE), _WRITTEN)
        self._drifted = Hands.virtual(range(PEOPLE), _WRITTEN, digits=(1, 7))
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _WRITTEN)
        reference = Reference.from_probabilities(domain, past.law(domain.size))
        self.checks = Checks(reference, Trusted(EPSILON), threshold, RECORDS, CELLS)
        self._laws = [hands.law(domain.size) for hands in (self._usual, self._drifted)]

    def divergence(self, part: float, plan: QueryPlan | None = None) -> float:
        """D_θ over a check's cells, or on average over many checks, in nats."""
        if plan is None:
            return float(np.mean([self.divergence(part, plan) for plan in self._plans]))
        usual, drifted = (np.bincount(plan.cell_of, law, plan.cells) for law in self._laws)
        return skewed_divergence(plan.mass, (1 - part) * usual + part * drifted, THETA)

    def check(
        self, people: Integers, part: float, recent: RecentChecks, rng: np.random.Generator
    ) -> Halves:
        """Run one check on these people's records of the day, half and half, on fresh cells."""
        plan = self.checks.plan(rng)
        writers = Writers(
            self._usual, self._drifted, part, RECORDS, self.checks.reference.domain.size
        )
        return self.checks.of_records(plan, writers.written(plan, people, rng), rng, recent)

    @cached_property
    def _plans(self) -> list[QueryPlan]:
        return [self.checks.plan(np.random.default_rng(i)) for i in range(_DRAWS)]
