"""Queries for one round, chosen from the public posterior: they ask what is still undecided.

A query of C classes tells hypotheses i and j apart by ``1 - BC_ij``, BC_ij the Bhattacharyya
coefficient of its report. A round's queries climb on ``Σ_ij u_i u_j (1 - BC_ij)`` with
``u ∝ √w``: the sum ``Σ_ij √(w_i w_j)``, which bounds the risk of the mixture, shrinks by what is
climbed to. The square root keeps rivals of small weight in the game.

Queries are a public function of earlier reports, and each report is private whatever it is asked.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from flwr_kld.predictors.class_maps import regions_code
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.laws import Floats, Laws

_MOST_CLASSES = 16
_CLASSES_PER_RATIO = 3
"""Randomised response over C classes tells most at C of about a third of ``e**epsilon``."""
_PAIRS, _PARTITIONS = 8, 4
"""Queries of a round: with two classes, and with more. Each sees other differences."""
_CLIMB = 6
_LEAST = 1e-4
"""Of the weights that are climbed on: nobody is forgotten for good."""


def adaptive_design(laws: Laws, epsilon: float, log_weights: Floats, round: int) -> Design:
    """Choose the queries of a round."""
    # Shapes: log_weights [K].
    classes = classes_for(epsilon)
    rivals = np.exp(0.5 * (log_weights - log_weights.max()))
    rivals = rivals / rivals.sum() + _LEAST
    rivals /= rivals.sum()
    seed = hashlib.sha256(f"flwr-kld adaptive {round} {laws.fingerprint}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(seed))
    shape = (_PAIRS if classes == 2 else _PARTITIONS, classes, laws.hypotheses)
    scores = rng.standard_normal(shape) * np.sqrt(rivals)
    names = (
        f"regions/{classes}/{regions_code(coefficients):#x}"
        for coefficients in _climb(laws, epsilon, scores, rivals)
    )
    design = Design.of(laws, epsilon, list(dict.fromkeys(names)))
    design.searched = True
    return design


def classes_for(epsilon: float) -> int:
    """How many classes a report is worth: two up to about two nats, more beyond."""
    ratio = math.exp(min(epsilon, 10.0))
    return int(min(max(2.0, ratio / _CLASSES_PER_RATIO), _MOST_CLASSES))


def _climb(laws: Laws, epsilon: float, scores: Floats, rivals: Floats) -> Floats:
    """Climb from linear scores of the classes, shape [queries, C, K], to better ones."""
    # The objective is convex in the masses of the classes, so that every label may move to the
    # class for which the linear part at the present partition is largest, and the sum grows.
    count, classes, k = scores.shape
    ratio = math.exp(min(epsilon, 10.0))
    other = 1 / (ratio + classes - 1)
    tables = laws.probabilities.astype(np.float32)
    centred = (laws.probabilities - laws.mean).astype(np.float32)
    for _ in range(_CLIMB):
        seen = (scores.reshape(-1, k).astype(np.float32) @ centred).reshape(count, classes, -1)
        chosen = np.zeros_like(seen)
        np.put_along_axis(chosen, seen.argmax(axis=1)[:, None], 1.0, axis=1)
        masses = (chosen.reshape(count * classes, -1) @ tables.T).reshape(scores.shape)
        roots = np.sqrt((ratio - 1) * other * masses.astype(np.float64) + other)
        scores = rivals * (1 - (roots @ rivals)[:, :, None] / roots)
    return scores
