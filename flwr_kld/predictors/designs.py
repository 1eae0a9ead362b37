"""Designs: public mixtures of queries, the exact law of their reports, and those on offer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.channel import MOST_CLASSES
from flwr_kld.predictors.class_maps import side_code
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.predictors.query import Query, named_query

Integers = NDArray[np.int64]


class Design:
    """Which queries are asked how often, for one table of laws. Public."""

    def __init__(
        self,
        laws: Laws,
        names: Sequence[str],
        weights: Sequence[int],
        queries: Sequence[Query],
        law: Floats,
        symbols: Integers,
    ) -> None:
        self.laws = laws
        self.names = names
        self.weights = weights
        self.queries = queries
        self.law = law
        self.starts: Integers = np.concatenate([[0], np.cumsum(symbols)])
        """First row of each query, and the number of rows; shape [queries + 1]."""
        self.searched = False
        """Whether the queries were searched for, so that another machine may find others."""

    @classmethod
    def of(
        cls, laws: Laws, epsilon: float, names: Sequence[str], weights: Sequence[int] | None = None
    ) -> Design:
        """Build the queries of these names, by default asked equally often."""
        weights = [1] * len(names) if weights is None else list(weights)
        if not names or len(weights) != len(names) or min(weights) < 1:
            raise ValueError("a design needs queries, and a positive integer weight for each")
        queries = [named_query(laws, name, epsilon) for name in names]
        masses = class_masses(laws, queries)
        law = np.vstack([q.channel.push(mass).T for q, mass in zip(queries, masses, strict=True)])
        symbols = np.array([query.channel.symbols for query in queries], dtype=np.int64)
        return cls(laws, list(names), weights, queries, law, symbols)

    @property
    def epsilon(self) -> float:
        """What a report costs its client, in nats."""
        return self.queries[0].channel.epsilon

    @cached_property
    def log_law(self) -> Floats:
        """``ln Q_j(z | q)``, shape [cells, K]."""
        return np.asarray(np.log(self.law))

    @cached_property
    def shares(self) -> Floats:
        """How often each query is asked, shape [queries], summing to 1."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.asarray(weights / weights.sum())

    @cached_property
    def affinities(self) -> Floats:
        """Bhattacharyya coefficient of one report between hypotheses, shape [K, K]."""
        often = np.repeat(self.shares, np.diff(self.starts))[:, None]
        roots = np.sqrt(self.law * often)
        return np.asarray(np.minimum(roots.T @ roots, 1.0))

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

    def asks_as(self, other: Design) -> bool:
        """Whether the other asks the same queries, as often, about the same laws."""
        return (self.laws, list(self.names), list(self.weights)) == (
            other.laws, list(other.names), list(other.weights)
        )  # fmt: skip

    @cached_property
    def _bounds(self) -> list[int]:
        return list(accumulate(int(w) for w in self.weights))


def class_masses(laws: Laws, queries: Sequence[Query]) -> list[Floats]:
    """Mass of each query's classes under the hypotheses, shape [K, C] each."""
    masses: list[Floats] = []
    for query in queries:  # a label is in one class: it is added up there, however many there are
        of, classes = query.class_of.astype(np.int64), query.channel.classes
        masses.append(np.array([np.bincount(of, law, classes) for law in laws.probabilities]))
    return masses


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
    information = pair_information(Design.of(laws, epsilon, names))
    for seed in range(_GROWTHS if laws.hypotheses > 2 else 0):
        replies = best_replies(laws, _play(information, _SHORT)[1], seed)
        if not replies:  # no two hypotheses differ here
            break
        information = np.vstack([information, pair_information(Design.of(laws, epsilon, replies))])
        names += replies
    weights = np.rint(_GRAIN * _play(information, _STEPS)[0]).astype(np.int64)
    chosen = np.flatnonzero(weights)
    design = Design.of(laws, epsilon, [names[q] for q in chosen], weights[chosen].tolist())
    design.searched = True
    return design


def _play(information: Floats, steps: int) -> tuple[Floats, Floats]:
    """Weights of the queries [queries], and what each pair's information is worth [pairs]."""
    best = information.max(axis=0)
    told = best > _INDISTINGUISHABLE
    if not told.any():
        return np.asarray(np.eye(1, len(information))[0]), np.zeros(len(best))
    queries, pairs = maximin((information[:, told] / best[told]).astype(np.float32), steps)
    worth = np.zeros(len(best))
    worth[told] = pairs / best[told]
    return queries, worth


def best_replies(laws: Laws, worth: Floats, seed: int) -> list[str]:
    """Names of sets of labels that tell apart the pairs that are worth most."""
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
    return list(dict.fromkeys(f"side/{side_code(c)}" for c in one_way))


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


_HASHES = 32
_MOST_OPTIMISED = 100
"""Hypotheses up to which the optimal design is the default."""


def default_design(laws: Laws, epsilon: float) -> Design:
    """Return the optimal design for up to 100 hypotheses, else one-versus-rest."""
    return (optimal_design if laws.hypotheses <= _MOST_OPTIMISED else ovr)(laws, epsilon)


def ovr(laws: Laws, epsilon: float) -> Design:
    """Randomised response on whether a random hypothesis makes the label likelier than average."""
    return Design.of(laws, epsilon, [f"ovr/{j}" for j in range(laws.hypotheses)])


def mlq(laws: Laws, epsilon: float) -> Design:
    """Randomised response on the hypothesis that makes the label likeliest."""
    return Design.of(laws, epsilon, ["mlq"])


def k_rr(laws: Laws, epsilon: float) -> Design:
    """Randomised response on the label itself."""
    return Design.of(laws, epsilon, ["labels"])


def subset(laws: Laws, epsilon: float) -> Design:
    """Subset selection on the label, or on public hashes of it where there are many labels."""
    if laws.labels <= MOST_CLASSES:
        return Design.of(laws, epsilon, ["labels/subset"])
    names = [f"hash/{MOST_CLASSES}/{n}/subset" for n in range(_HASHES)]
    return Design.of(laws, epsilon, names)


def hadamard(laws: Laws, epsilon: float) -> Design:
    """Randomised response on a random entry of the label's row in a Hadamard matrix."""
    # Acharya, Sun, Zhang 2019 with public coins. There are about as many queries as labels, so they
    # are built when they are asked for; masses of all of them come from one fast transform.
    rows = _Rows(laws, epsilon)
    transformed = _walsh(laws.probabilities, len(rows) + 1)[:, 1:]
    minus = (1 - transformed) / 2  # mass of the labels whose entry is -1
    channel = rows[0].channel
    law = channel.push(np.stack([1 - minus, minus], axis=2))  # [K, queries, 2]
    names = [f"hadamard/{row}" for row in range(1, len(rows) + 1)]
    cells = law.transpose(1, 2, 0).reshape(2 * len(rows), laws.hypotheses)
    return Design(laws, names, [1] * len(rows), rows, cells, np.full(len(rows), 2))


DESIGNS: dict[str, Callable[[Laws, float], Design]] = {
    "default": default_design,
    "design": optimal_design,
    "ovr": ovr,
    "mlq": mlq,
    "k-rr": k_rr,
    "subset": subset,
    "hadamard": hadamard,
}


class _Rows(Sequence[Query]):
    """Queries for the rows 1 .. N-1 of the smallest Hadamard matrix that holds the labels."""

    def __init__(self, laws: Laws, epsilon: float) -> None:
        self._laws, self._epsilon = laws, epsilon
        self._count = (1 << (laws.labels - 1).bit_length()) - 1
        self._build = lru_cache(maxsize=64)(self._row)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        at = range(self._count)[index]
        return [self._build(i) for i in at] if isinstance(at, range) else self._build(at)

    def _row(self, index: int) -> Query:
        return named_query(self._laws, f"hadamard/{index + 1}", self._epsilon)


def _walsh(rows: Floats, size: int) -> Floats:
    """Fast Walsh-Hadamard transform of rows padded to `size`, a power of two."""
    values = np.zeros((len(rows), size))
    values[:, : rows.shape[1]] = rows
    step = 1
    while step < size:
        blocks = values.reshape(len(rows), -1, 2, step)
        left, right = blocks[:, :, 0], blocks[:, :, 1]
        values = np.stack([left + right, left - right], axis=2).reshape(len(rows), size)
        step *= 2
    return values
