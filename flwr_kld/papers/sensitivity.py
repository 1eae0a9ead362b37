"""Exact sensitivity of the one-scalar release.

The scalar is (PRIEST-KLD, Algorithm 1, lines 8-10, smoothed so that it is bounded)

    F(h) = Σ_x w(x) [λ (P_a(x) / Π(x) - 1) - ln(P_a(x) / Π(x))],   P_a = (h + a) / (M + A),

with public weights w >= 0, smoothing a > 0, ``A = Σ a`` and normaliser M. It replaces the paper's
Δ < 0.7 (Theorem 4.9), whose premise cannot be checked privately.
Proof note: ``docs/proofs/papers.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def replace_one(records: float, w: Vector, slope: Vector, a: Vector, *, others: bool) -> float:
    """Largest change of F when one of `records` records changes its symbol; M = records, public."""
    largest = w * (np.log1p(1 / a) - slope)
    smallest = w * (np.log1p(1 / (records - 1 + a)) - slope)
    if others:
        largest, smallest = np.append(largest, 0.0), np.append(smallest, 0.0)
    if len(largest) == 1:
        return 0.0  # a single symbol: nothing to change to
    top, bottom = np.argsort(-largest)[:2], np.argsort(smallest)[:2]
    return float(max(largest[u] - smallest[v] for u in top for v in bottom if u != v))


def add_remove(w: Vector, slope: Vector, a: Vector, *, most: float = np.inf) -> float:
    """Largest change of F when one of at most `most` records is added or removed, in nats."""
    first = np.abs(np.log1p(1 / a) - slope)
    last = np.abs(np.log1p(1 / (most - 1 + a)) - slope)
    return float(np.max(w * np.maximum(first, last)))


def client_level(clip: int, w: Vector, slope: Vector, a: Vector) -> float:
    """Largest change of F when a client of at most `clip` records joins or leaves, in nats."""
    k = np.arange(clip)
    increments = (w * (np.log1p(1 / (k[:, None] + a)) - slope)).ravel()
    best = np.partition(increments, -clip)[-clip:] if len(increments) > clip else increments
    return float(max(np.maximum(best, 0).sum(), clip * np.max(w * slope)))
