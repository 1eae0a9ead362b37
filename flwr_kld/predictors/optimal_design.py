"""The default design: a public mixture of queries that tells every two hypotheses apart well.

The Hellinger information of a report between hypotheses i and j is ``1 - BC_ij``, a mean over the
queries. The design maximises the smallest *efficiency* over pairs: information relative to that of
the pair's own best query. (Maximising the smallest information itself would spend all reports on
the two hypotheses that are nearest twins, however little that could gain.) It is the value of a
zero-sum game between weights on queries and weights on pairs, which optimistic multiplicative
weights on both sides play out (Rakhlin and Sridharan 2013).
Proof note: ``docs/proofs/bayes-mixture.md``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from flwr_kld.predictors.design import Design
from flwr_kld.predictors.laws import Floats, Laws

_ROUNDS = 600
_RATE = 8.0
"""Within 2 % of the linear program's value at K = 10 and 100, which takes minutes there."""
_GRAIN = 1 << 12
"""Weights are multiples of about 1 / 4096; rarer queries are left out."""
_SPLITS = 192
_PARTITIONS = 16
_FINEST = 6
_MOST_PAIRED = 24
_MOST_LABELS = 64
_INDISTINGUISHABLE = 1e-12


@lru_cache(maxsize=8)
def optimal_design(laws: Laws, epsilon: float) -> Design:
    """Choose queries and weights for one table of laws; seconds for K = 100 and M = 65,536.

    Pairs that no query of the pool tells apart are left out of the game.
    """
    names = query_pool(laws, epsilon)
    pool = Design.of(laws, epsilon, names)
    information = pair_information(pool)
    best = information.max(axis=0)
    told = best > _INDISTINGUISHABLE
    mixture = maximin((information[:, told] / best[told]).astype(np.float32))
    weights = np.rint(_GRAIN * mixture).astype(np.int64)
    chosen = np.flatnonzero(weights)
    return pool.only(chosen, weights[chosen])


def query_pool(laws: Laws, epsilon: float) -> list[str]:
    """Names of the queries that the design chooses from."""
    k = laws.hypotheses
    names = ["mlq"]
    if laws.labels <= _MOST_LABELS:
        names.append("labels")
    if k == 2:  # every other query would ask for the same bit
        return names
    names += [f"ovr/{j}" for j in range(k)]
    if k <= _MOST_PAIRED:
        names += [f"pair/{i}/{j}" for i, j in combinations(range(k), 2)]
    names += [f"cells/1/{n}" for n in range(_SPLITS)]
    # Randomised response pays off up to about e**epsilon + 1 classes.
    finest = min(_FINEST, math.ceil(math.log2(math.exp(min(epsilon, 50.0)) + 1)))
    for bits in range(2, finest + 1 if epsilon >= 1 else 2):
        names += [f"cells/{bits}/{n}" for n in range(_PARTITIONS)]
    return names


def pair_information(design: Design) -> Floats:
    """``1 - BC_ij`` of each query's report, shape [queries, pairs i < j]."""
    k = design.laws.hypotheses
    first, second = np.triu_indices(k, 1)
    information = np.empty((len(design.queries), len(first)))
    for q, roots in enumerate(np.split(np.sqrt(design.law), design.starts[1:-1])):
        information[q] = 1 - (roots.T @ roots)[first, second]
    return np.maximum(information, 0.0)


def maximin(payoff: NDArray[np.floating[Any]]) -> Floats:
    """Mixture of rows whose smallest mean payoff over the columns is nearly largest.

    Parameters
    ----------
    payoff : NDArray
        Shape [rows, columns], in [0, 1].

    Returns
    -------
    Floats
        Weights of the rows, shape [rows], summing to 1: the average of the players' steps.
    """
    rows, columns = payoff.shape
    if not columns:
        return np.asarray(np.eye(1, rows)[0])
    row_score, column_score, average = np.zeros(rows), np.zeros(columns), np.zeros(rows)
    gain, loss = payoff.mean(axis=1), payoff.mean(axis=0)
    row, column = np.full(rows, 1 / rows), np.full(columns, 1 / columns)
    for _ in range(_ROUNDS):
        last_gain, gain = gain, payoff @ column.astype(payoff.dtype)
        last_loss, loss = loss, row.astype(payoff.dtype) @ payoff
        row_score += _RATE * (2 * gain - last_gain)  # each guesses that the other repeats itself
        column_score -= _RATE * (2 * loss - last_loss)
        row, column = softmax(row_score), softmax(column_score)
        average += row / _ROUNDS
    return average
