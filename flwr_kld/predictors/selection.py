"""Selects one hypothesis, with a total-variation guarantee that holds even if none is true.

Locally private hypothesis selection (Gopi, Kamath, Kulkarni, Nikolov, Wu, Zhang 2020), read off the
reports that a predictor has. For each pair the reports' bounded scores
``(Q_i - Q_j) / (Q_i + Q_j)`` are held against their mean under each hypothesis; what cannot be
chance is a lower bound on the hypothesis' distance from the clients' law. The minimum-distance
argument (Yatracos 1985; Devroye, Lugosi 2001) makes a guarantee of these bounds.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.predictors.tally import RowCounts

_CELLS = 1 << 22
"""Scores in memory at a time."""


@dataclass(frozen=True)
class Selected:
    """The selected hypothesis, and how far from the clients' law it is at most."""

    name: str  # Name of the selected candidate
    index: int  # Its place among the hypotheses
    factor: float  # What the distance of the best hypothesis is multiplied by
    slack: float  # In total variation; 0 once every rival is refuted or near enough
    distance: float  # Lower bound on ``TV(law, f)`` for every hypothesis f: above 0 none is true
    confidence: float  # Of both statements together


class PairScores:
    """Sums of every pair's scores over the reports of one context."""

    def __init__(self, hypotheses: int) -> None:
        self._k = hypotheses
        self._seen, self._expected, self._variance, self._span = np.zeros(
            (4, hypotheses, hypotheses)
        )

    def add(self, design: Design, counts: RowCounts) -> None:
        """Add reports to a design's queries."""
        of_rows = np.zeros(len(design.law), dtype=np.int64)
        of_rows[counts.rows] = counts.counts
        totals = np.add.reduceat(of_rows, design.starts[:-1])
        for q in np.flatnonzero(totals):
            rows = slice(design.starts[q], design.starts[q + 1])
            low, high = np.full((2, self._k, self._k), [[[np.inf]], [[-np.inf]]])
            for part in _parts(rows, self._k):
                law = design.law[part]
                scores = _scores(law)
                self._seen += np.tensordot(of_rows[part], scores, axes=1)
                self._expected += totals[q] * np.einsum("zi,zij->ij", law, scores)
                low = np.minimum(low, scores.min(axis=0))
                high = np.maximum(high, scores.max(axis=0))
            self._variance += totals[q] * (high - low) ** 2 / 4
            self._span += totals[q] * design.queries[int(q)].channel.contraction * (high - low)

    def distances(self, beta: float) -> Floats:
        """Lower bounds on the total variation between the clients' law and each hypothesis."""
        pairs = max(self._k * (self._k - 1) // 2, 1)
        beyond = np.abs(self._seen - self._expected) - radius(self._variance, beta / pairs)
        distinct = (self._span > 0) & (beyond > 0)
        bounds = np.divide(beyond, self._span, out=np.zeros_like(beyond), where=distinct)
        return np.asarray(np.minimum(bounds.max(axis=1), 1.0))


def radius(variance: Floats, beta: float) -> Floats:
    """How far a martingale strays, at any time, with probability 1 - `beta` (Robbins 1970)."""
    return np.asarray(np.sqrt((variance + 1) * (np.log(variance + 1) - 2 * math.log(beta))))


def select(laws: Laws, log_weights: Floats, apart: Floats, factor: float) -> tuple[int, float]:
    """Return the hypothesis of least slack, the likeliest of equals, and its slack."""
    # If hypothesis i is the best, the optimum is at least ``apart_i``, and the distance of j at
    # most the optimum plus ``TV(f_i, f_j)``, so at most ``factor * optimum + TV(f_i, f_j) - (factor
    # - 1) * apart_i``.
    excess = laws.distances - (factor - 1) * apart
    slack = np.maximum(excess, 0.0).max(axis=1)
    best = int(np.lexsort((-log_weights, slack))[0])
    return best, float(slack[best])


def _parts(rows: slice, hypotheses: int) -> list[slice]:
    step = max(1, _CELLS // hypotheses**2)
    return [slice(a, min(a + step, rows.stop)) for a in range(rows.start, rows.stop, step)]


def _scores(law: Floats) -> Floats:
    """``(Q_i - Q_j) / (Q_i + Q_j)`` of each symbol, shape [symbols, K, K]; 0 where both are 0."""
    first, second = law[:, :, None], law[:, None, :]
    total = first + second
    return np.divide(first - second, total, out=np.zeros_like(total), where=total > 0)
