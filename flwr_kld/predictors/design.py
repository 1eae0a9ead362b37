"""A public mixture of queries, and the exact law of their reports under every hypothesis.

A report's likelihood under hypothesis j is ``Q_j(z | q) = Σ_y f_j(y) W(z | y, q)``: a finite table,
one row for each (query, symbol) that can be reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.count import InvalidReply
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
