"""Designs: public mixtures of queries, the exact law of their reports, and those on offer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.class_maps import as_code
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.predictors.query import named_query

Integers = NDArray[np.int64]


class Design:
    """Which queries are asked how often, for one table of laws. Public."""

    def __init__(
        self, laws: Laws, epsilon: float, names: Sequence[str], weights: Sequence[int] | None = None
    ) -> None:
        """Build the queries of these names, by default asked equally often."""
        self.laws, self.names = laws, list(names)
        self.weights = [1] * len(names) if weights is None else list(weights)
        if not names or len(self.weights) != len(names) or min(self.weights) < 1:
            raise ValueError("a design needs queries, and a positive integer weight for each")
        self.queries = [named_query(laws, name, epsilon) for name in names]
        rows = []
        for query in self.queries:  # a label is in one class: it is added up there
            of, classes = query.class_of.astype(np.int64), query.channel.classes
            masses = np.array([np.bincount(of, law, classes) for law in laws.probabilities])
            rows.append(query.channel.push(masses).T)
        self.law: Floats = np.vstack(rows)
        """``Q_j(z | q)``, shape [cells, K]."""
        self.starts: Integers = np.cumsum([0, *(query.channel.classes for query in self.queries)])
        """First row of each query, and the number of rows; shape [queries + 1]."""
        self.searched = False
        """Whether the queries were searched for, so that another machine may find others."""

    @cached_property
    def log_law(self) -> Floats:
        """``ln Q_j(z | q)``, shape [cells, K]."""
        return np.asarray(np.log(self.law))

    @cached_property
    def shares(self) -> Floats:
        """How often each query is asked, shape [queries], summing to 1."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.asarray(weights / weights.sum())

    def pick(self, number: int) -> int:
        """Query that a uniform number of many bits picks, in proportion to the weights."""
        return bisect_right(self._bounds, number % self._bounds[-1])

    def rows(self, queries: Integers, symbols: Integers) -> Integers:
        """Rows of the law that reports fall in, shape [n]."""
        known = (queries >= 0) & (queries < len(self.queries))
        if not known.all():
            raise InvalidReply("a report names a query that was not asked")
        if ((symbols < 0) | (symbols >= np.diff(self.starts)[queries])).any():
            raise InvalidReply("a report's symbol is impossible for its query")
        return np.asarray(self.starts[queries] + symbols)

    @cached_property
    def _bounds(self) -> list[int]:
        return list(accumulate(int(w) for w in self.weights))


_STEPS, _SHORT = 600, 150
"""Steps of the last game (within 2 % of its value) and of those that the pool grows by."""
_RATE = 8.0
_GRAIN = 1 << 12
"""Weights are multiples of about 1 / 4096; rarer queries are left out."""
_GROWTHS, _REPLIES, _CLIMB = 6, 32, 8
_SPLITS = 192
_PARTITIONS = 16
_FINEST = 6
_MOST_PAIRED = 24
_MOST_LABELS = 64
_INDISTINGUISHABLE = 1e-12


@lru_cache(maxsize=8)
def optimal_design(laws: Laws, epsilon: float) -> Design:
    """Choose queries and weights for one table of laws; seconds for K = 100 and M = 65,536."""
    names = query_pool(laws, epsilon)
    information = pair_information(Design(laws, epsilon, names))
    for seed in range(_GROWTHS if laws.hypotheses > 2 else 0):
        replies = best_replies(laws, _play(information, _SHORT)[1], seed)
        if not replies:  # no two hypotheses differ here
            break
        information = np.vstack([information, pair_information(Design(laws, epsilon, replies))])
        names += replies
    weights = np.rint(_GRAIN * _play(information, _STEPS)[0]).astype(np.int64)
    chosen = np.flatnonzero(weights)
    design = Design(laws, epsilon, [names[q] for q in chosen], weights[chosen].tolist())
    design.searched = True
    return design


def _play(information: Floats, steps: int) -> tuple[Floats, Floats]:
    """Weights of the queries [queries], and what each pair's information is worth [pairs]."""
    best = information.max(axis=0)
    distinct = best > _INDISTINGUISHABLE
    if not distinct.any():
        return np.asarray(np.eye(1, len(information))[0]), np.zeros(len(best))
    queries, pairs = maximin((information[:, distinct] / best[distinct]).astype(np.float32), steps)
    worth = np.zeros(len(best))
    worth[distinct] = pairs / best[distinct]
    return queries, worth


def best_replies(laws: Laws, worth: Floats, seed: int) -> list[str]:
    """Names of sets of labels that distinguish the pairs that are worth most."""
    # Each climbs on ``Σ_ij worth_ij (f_i(S) - f_j(S))²``, which information is proportional to
    # where it is small: the set of largest linear part at the present one is better, unless it is
    # the same.
    # Shapes: worth [pairs].
    k = laws.hypotheses
    between = np.zeros((k, k))
    between[np.triu_indices(k, 1)] = worth
    between += between.T
    laplacian = np.diag(between.sum(axis=1)) - between
    if not worth.any():
        return []
    towards = laws.probabilities - laws.mean
    coefficients = np.random.default_rng(seed).choice([-1.0, 1.0], (_REPLIES, k))
    for _ in range(_CLIMB):
        sets = np.where(coefficients @ towards > 0, 1.0, -1.0)
        coefficients = sets @ towards.T @ laplacian
    # A set and its complement are the same question.
    one_way = [c * np.sign(c[np.abs(c).argmax()]) for c in coefficients if c.any()]
    return list(dict.fromkeys(f"side/{as_code(c)}" for c in one_way))


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


def maximin(payoff: NDArray[np.floating[Any]], steps: int = _STEPS) -> tuple[Floats, Floats]:
    """Nearly optimal mixtures of both players: the averages of their steps."""
    rows, columns = payoff.shape
    scores = [np.zeros(rows), np.zeros(columns)]
    averages = [np.zeros(rows), np.zeros(columns)]
    gain, loss = payoff.mean(axis=1), payoff.mean(axis=0)
    row, column = np.full(rows, 1 / rows), np.full(columns, 1 / columns)
    for _ in range(steps):
        last_gain, gain = gain, payoff @ column.astype(payoff.dtype)
        last_loss, loss = loss, row.astype(payoff.dtype) @ payoff
        scores[0] += _RATE * (2 * gain - last_gain)  # each guesses that the other repeats itself
        scores[1] -= _RATE * (2 * loss - last_loss)
        row, column = softmax(scores[0]), softmax(scores[1])
        averages[0] += row / steps
        averages[1] += column / steps
    return averages[0], averages[1]


def ovr(laws: Laws, epsilon: float) -> Design:
    """Randomised response on whether a random hypothesis makes the label likelier than average."""
    return Design(laws, epsilon, [f"ovr/{j}" for j in range(laws.hypotheses)])


def mlq(laws: Laws, epsilon: float) -> Design:
    """Randomised response on the hypothesis that makes the label likeliest."""
    return Design(laws, epsilon, ["mlq"])


DESIGNS: dict[str, Callable[[Laws, float], Design]] = {
    "design": optimal_design,
    "ovr": ovr,
    "mlq": mlq,
}
