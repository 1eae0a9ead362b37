"""The people who write digits in a simulated year, and one day's check of some of them."""

from __future__ import annotations

import numpy as np

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.digits import load_digits
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


class World:
    """Everything that is the same in all years.

    Parameters
    ----------
    threshold : float
        Nats of D_θ that are tolerated.
    """

    def __init__(self, threshold: float) -> None:
        self._usual = Hands.virtual(range(PEOPLE), _WRITTEN)
        self._drifted = Hands.virtual(range(PEOPLE), _WRITTEN, digits=(1, 7))
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _WRITTEN)
        reference = Reference.from_probabilities(domain, past.law(domain.size))
        self.checks = Checks(reference, Trusted(EPSILON), threshold, RECORDS, CELLS)
        self.plan = self.checks.plan(np.random.default_rng(0))
        laws = [hands.law(domain.size) for hands in (self._usual, self._drifted)]
        self._shares = [np.bincount(self.plan.cell_of, law, self.plan.cells) for law in laws]

    def shares(self, part: float) -> Floats:
        """P over the cells if this part of what is written has drifted."""
        usual, drifted = self._shares
        mixed: Floats = (1 - part) * usual + part * drifted
        return mixed

    def divergence(self, part: float) -> float:
        """D_θ over the cells, in nats."""
        return skewed_divergence(self.plan.mass, self.shares(part), THETA)

    def check(self, people: Integers, part: float, rng: np.random.Generator) -> Halves:
        """Run one check on these people's records of the day, half and half."""
        size = self.plan.reference.domain.size
        writers = Writers(self._usual, self._drifted, part, RECORDS, size)
        return self.checks.of_records(self.plan, writers.written(self.plan, people, rng), rng)
