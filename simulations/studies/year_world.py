"""The people who write digits in a simulated year, and one day's check of some of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.inference.witness import GROUPS, Witness
from flwr_kld.privacy import Guarantee
from flwr_kld.privacy.bits import SeededBits
from flwr_kld.privacy.calibrate import calibrated_laplace
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.digits import load_digits
from flwr_kld.simulations.studies.cohorts import merged, published
from flwr_kld.simulations.studies.hands import Hands

PEOPLE, COHORT, RECORDS = 14_600, 200, 50
"""In all, asked a day, and fresh records of each of them."""
EPSILON, CELLS, THETA = 0.2, 100, 0.01
_WRITTEN = 100
"""Images that a person's records are drawn from."""
_PAST = range(1_000_000, 1_003_000)
People = NDArray[np.int64]


class World:
    """Everything that is the same in all years.

    Parameters
    ----------
    level : float
        Of the bound that witnesses are learnt for.
    """

    def __init__(self, level: float) -> None:
        self._level = level
        self.usual = Hands.virtual(range(PEOPLE), _WRITTEN)
        self.drifted = Hands.virtual(range(PEOPLE), _WRITTEN, digits=(1, 7))
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _WRITTEN)
        reference = Reference.from_probabilities(domain, past.law(domain.size))
        self.plan = Partition(CELLS).draw(reference, np.random.default_rng(0))
        self.event = calibrated_laplace(Guarantee(EPSILON))
        laws = [hands.law(domain.size) for hands in (self.usual, self.drifted)]
        self._shares = [np.bincount(self.plan.cell_of, law, self.plan.cells) for law in laws]

    def shares(self, part: float) -> Floats:
        """P over the cells if this part of what is written has drifted."""
        usual, drifted = self._shares
        mixed: Floats = (1 - part) * usual + part * drifted
        return mixed

    def divergence(self, part: float) -> float:
        """D_θ over the cells, in nats."""
        return skewed_divergence(self.plan.mass, self.shares(part), THETA)

    def check(
        self, people: People, part: float, rng: np.random.Generator
    ) -> tuple[Witness, NoisyCounts]:
        """Run one check on these people's records of the day, half and half."""
        first, second = np.split(people, 2)
        bits = SeededBits(int(rng.integers(2**63)))
        counts = np.bincount(self._cells(first, part, rng), minlength=self.plan.cells)
        noisy = published(counts[:, None], self.plan, self.event, bits)
        witness = Witness.from_counts(noisy, theta=THETA, level=self._level)
        place = self._cells(second, part, rng).reshape(len(second), -1) * GROUPS
        place += rng.integers(GROUPS, size=(len(second), 1))
        counts = np.bincount(place.reshape(-1), minlength=self.plan.cells * GROUPS)
        exact = merged(counts.reshape(-1, GROUPS), witness.level_of)
        return witness, published(exact, witness.query_plan(), self.event, bits)

    def _cells(self, people: People, part: float, rng: np.random.Generator) -> NDArray[np.int64]:
        symbols = self.usual.write(people, RECORDS, rng)
        if part:
            other = self.drifted.write(people, RECORDS, rng)
            symbols = np.where(rng.random(symbols.shape) < part, other, symbols)
        return self.plan.cell_of[symbols].reshape(-1).astype(np.int64)

    def seen(self, witness: Witness, part: float) -> float:
        """Return what a witness sees of D_θ, exactly, in nats."""
        mean = float(np.bincount(witness.level_of, self.shares(part)) @ witness.f)
        whole = (1 - THETA) * mean + THETA * witness.reference_mean
        return witness.log_mean - math.log(whole)
