"""What checks would find: simulated cohorts, and drifts from which on their estimates show one.

`_ESTIMATES` are few, so the power by them is taken to be off by `_ERROR`; `_LEAST` and `SMALLEST`
keep quotients finite. What is seen is extrapolated from a D_θ that is `_NEAR` it, a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts, noise_in_counts
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.allowance import Allowance
from flwr_kld.infer.decision import LIKELY
from flwr_kld.infer.drift import Drift, Law, Shape
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.kernel.law import BitSource, SeededBits, sample
from flwr_kld.kernel.release import Release

USUAL: tuple[Shape, ...] = ("spread", "tilted", "vanishing", "one symbol")
"""Shapes of drifts that a check which says "no alarm" would have seen."""
_ESTIMATES, _ERROR, _NEAR = 3, 0.05, 2.0
"""Estimates that are drawn for each drift, and what a power by so few may be off by."""
_LEAST = 0.02
"""Standard deviation of the root of an estimate, at least, in roots of nats."""
SMALLEST = 1e-4
"""Nats below which nobody looks."""


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


def in_cells(law: Law, plan: QueryPlan) -> Law:
    """Return the probabilities of a plan's cells, by a law over symbols."""
    return np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)


def drawn_counts(
    plan: QueryPlan,
    event: Release,
    p: Law,
    records: float,
    design_effect: float,
    number: int,
    generator: np.random.Generator,
    bits: BitSource,
) -> Iterator[NoisyCounts]:
    """Publish the counts of cohorts that are drawn from a law over cells."""
    most = max(round(records), 2)
    effect = min(design_effect, most / 2)
    for h in draw_cohorts(p / p.sum(), most, effect, number, generator):
        yield published(h, plan, event, bits)


@dataclass(frozen=True)
class Estimating:
    """What is public of the counts that a check's estimate of the population is made of."""

    plan: QueryPlan
    event: Release
    records: float
    design_effect: float
    threshold: float  # Nats above which an estimate shows a drift

    def seen_from(self, most: float, hidden: Allowance) -> float | None:
        """Return D_θ from which on drifts of the usual shapes are seen, in nats, within `most`.

        With probability `LIKELY` or more; None if some of them are not even there. Of D_θ from the
        law that a reference which is a sample was drawn from: the drifts that are forecast are away
        from the reference as it was counted.
        """
        away = most - math.sqrt(hidden.by_drift * most)
        if away <= self.threshold:
            return None
        seen = self.threshold
        for needed in self._needed(away):
            if needed > away:
                return None
            seen = max(seen, needed)
        if seen * _NEAR < away:
            seen = max([seen, *self._needed(seen)])  # none where no drift is so far
        return hidden.at_most(min(seen, away))

    def above(self, law: Law) -> float:
        """Return by about how many standard deviations the estimate is above the threshold."""
        root, deviation = self._root(law)
        return (root - math.sqrt(self.threshold)) / deviation

    def _needed(self, divergence: float) -> Iterator[float]:
        """Yield D_θ from which on drifts of a shape are seen, estimated from one of this D_θ."""
        # The root of an estimate is about normal: it grows with that of D_θ, and its spread hardly.
        for shape in USUAL:
            drift = Drift(self.plan.reference, shape)
            if divergence <= drift.largest:
                root, deviation = self._root(drift.at(divergence))
                errors = float(scipy.special.ndtri(LIKELY + _ERROR))
                enough = math.sqrt(self.threshold) + errors * deviation
                yield divergence * (enough / max(root, SMALLEST)) ** 2

    def _root(self, law: Law) -> tuple[float, float]:
        """Return the mean root of estimates that are drawn, and the deviation that they state."""
        p, drawn = in_cells(law, self.plan), (np.random.default_rng(0), SeededBits(0))
        effects = DesignEffects(self.design_effect, self.records)  # lots of any size
        sizes = self.records, self.design_effect, _ESTIMATES
        found = [
            posterior_ratios(counts, effects=effects).population
            for counts in drawn_counts(self.plan, self.event, p, *sizes, *drawn)
        ]
        value, error = np.array([(one.value, one.error.total) for one in found]).T
        low, root, high = np.sqrt(np.maximum([value - error, value, value + error], 0)).mean(axis=1)
        return float(root), max(float(high - low) / 2, _LEAST)
