"""The designs on offer, by the names that a predictor's ``design`` argument takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import overload

import numpy as np

from flwr_kld.predictors.channel import MOST_CLASSES
from flwr_kld.predictors.design import Design
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.predictors.optimal_design import optimal_design
from flwr_kld.predictors.query import Query, named_query

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
    """Randomised response on a random entry of the label's row in a Hadamard matrix.

    Acharya, Sun, Zhang 2019 with public coins. There are about as many queries as labels, so they
    are built when they are asked for; masses of all of them come from one fast transform.
    """
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
