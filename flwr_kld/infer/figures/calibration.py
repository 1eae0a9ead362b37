"""How well predictions fit outcomes, from the noised counts of their combinations.

A pair of columns tells of a model if it is a probability and what came of it (a `Binned` column
with edges in (0, 1), and `Labels` of two names, the second of which is the event), or two columns
of the same labels. Post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.infer.figures.numbers import SIDES, Figure
from flwr_kld.infer.fraction_interval import Floats
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.categories import Categories
from flwr_kld.table.labels import Labels


@dataclass(frozen=True)
class Calibration:
    """How well predictions fit outcomes, where both are known. Everything in it is public."""

    # Fraction of right predictions; of probabilities, those on the right side of 0.5
    accuracy: Figure
    # Expected calibration error of probabilities: mean over records of the distance between a bin's
    # middle and the fraction of events in it, in [0, 1], to within half a bin. None for predicted
    # labels.
    error: Figure | None


def calibration(noisy: NoisyCounts, effects: DesignEffects = INDEPENDENT) -> Calibration | None:
    """Estimate accuracy and calibration with 95 % limits; None if the column shows neither."""
    pair = _pair(noisy.plan.reference.domain)
    if pair is None:
        return None
    predicted, outcome = pair
    cell_of = noisy.plan.cell_of.reshape(predicted.size, outcome.size)
    cell_of = cell_of[: _listed(predicted), : _listed(outcome)]
    if (noisy.plan.symbols_in[cell_of] > 1).any():
        return None
    counts = noisy.values[cell_of].astype(np.float64)
    reading = _Reading(counts, noisy.noise.variance, effects)
    if not isinstance(predicted, Binned):
        return Calibration(reading.share(np.eye(len(counts), dtype=bool)), None)
    middles = _middles(predicted)
    right = (middles > 0.5)[:, None] == np.array([False, True])
    return Calibration(reading.share(right), reading.distance(middles))


@dataclass(frozen=True)
class _Reading:
    """Noised counts of predictions × outcomes, and how they vary."""

    counts: Floats
    noise: float
    effects: DesignEffects

    @property
    def records(self) -> float:
        """Number of records where both are known, at least 1."""
        return max(float(self.counts.sum()), 1.0)

    def _effects(self, weights: NDArray[np.generic]) -> Floats:
        """Return the design effects of sums of the cells with these weights, [sums, *cells]."""
        law = np.maximum(self.counts, 0).ravel() / self.records
        return self.effects.of_groups(weights.reshape(len(weights), -1).astype(np.float64), law)

    def share(self, chosen: NDArray[np.bool_]) -> Figure:
        """Estimate the fraction of the records in some of the cells."""
        held, records, cells = float(self.counts[chosen].sum()), self.records, int(chosen.sum())
        share = float(np.clip(held / records, 0, 1))
        sampled = float(self._effects(chosen[None])[0]) * records
        noise = self.noise * float(((chosen - share) ** 2).sum())
        deviation = math.sqrt(sampled * share * (1 - share) + noise) / records
        # Limits are shares r that are no farther than sampling and noise go if they are true
        # (Fieller 1954): (held - r records)² is at most so many times their variance.
        sampled, noise = SIDES**2 * sampled, SIDES**2 * self.noise
        square = records**2 + sampled - noise * chosen.size
        half, rest = held * records + sampled / 2 - noise * cells, held**2 - noise * cells
        low, high = 0.0, 1.0
        if square > 0:
            apart = math.sqrt(max(half**2 - square * rest, 0.0))
            low, high = max((half - apart) / square, 0.0), min((half + apart) / square, 1.0)
        return Figure(share, deviation, min(low, share), max(high, share))

    def distance(self, middles: Floats) -> Figure:
        """Estimate how far fractions of events are from what was predicted, over all bins."""
        weights = np.stack([-middles, 1 - middles], axis=1)  # of no event and of one, in each bin
        excess = (weights * self.counts).sum(axis=1)
        of_bin = self._effects(weights * np.eye(len(weights))[:, :, None])[:, None]
        each = of_bin * np.maximum(self.counts, 0) + self.noise
        variance = (weights**2 * each).sum(axis=1)
        away = np.sqrt(np.maximum(excess**2 - variance, 0.0))  # E excess**2 is too large by that
        # What was seen is at least the truth's with its errors' signs, and not above the truth by
        # more than the errors' own size.
        seen, deviation = float(np.abs(excess).sum()), float(np.sqrt(variance.sum()))
        size = float(np.sqrt(2 / np.pi) * np.sqrt(variance).sum())
        low = seen - size - SIDES * float(np.sqrt(1 - 2 / np.pi)) * deviation
        high = seen + SIDES * deviation
        numbers = np.array([away.sum(), deviation, max(low, 0.0), high]) / self.records
        value, deviation, low, high = np.minimum(numbers, 1.0).tolist()
        return Figure(min(max(value, low), high), deviation, low, high)


def _pair(domain: Domain) -> tuple[Binned | Labels, Labels] | None:
    """Return the domains of prediction and outcome, if that is what a pair of columns is."""
    if not isinstance(domain, Categories) or len(domain.domains) != 2:
        return None
    predicted, outcome = domain.domains.values()
    if not isinstance(outcome, Labels):
        return None
    if isinstance(predicted, Labels) and predicted.names == outcome.names:
        return predicted, outcome
    if isinstance(predicted, Binned) and len(outcome.names) == 2:
        edges = np.asarray(predicted.edges)
        return (predicted, outcome) if edges.min() > 0 and edges.max() < 1 else None
    return None


def _listed(domain: Domain) -> int:
    return domain.size - len(domain.unlisted)


def _middles(predicted: Binned) -> Floats:
    """Return the middle of each bin of [0, 1]."""
    ends = np.concatenate([[0.0], predicted.edges, [1.0]])
    return np.asarray((ends[1:] + ends[:-1]) / 2)
