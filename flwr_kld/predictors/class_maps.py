"""Public label → class maps: what a query asks of a label before randomised response.

Every map is a function of its name and of the public laws alone, computed without rounding that
could differ between machines: a stored predictor rebuilds the very same queries from their names.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.predictors.laws import Laws

ClassMap = NDArray[np.uint16]
"""Shape [M], in 0 .. C-1."""

_MOST_CLASSES = 1 << 16
_BLOCK = 32


def labels(laws: Laws) -> ClassMap:
    """Each label a class of its own."""
    if laws.labels > _MOST_CLASSES:
        raise ValueError(f"a query has at most {_MOST_CLASSES:,} classes")
    return np.arange(laws.labels).astype(np.uint16)


def one_versus_rest(laws: Laws, arm: int) -> ClassMap:
    """Whether a label is likelier under hypothesis `arm` than on average."""
    return np.asarray(laws.probabilities[arm] > laws.mean).astype(np.uint16)


def pair(laws: Laws, first: int, second: int) -> ClassMap:
    """Whether a label is likelier under `first` than under `second` (Scheffé's set)."""
    return np.asarray(laws.probabilities[first] > laws.probabilities[second]).astype(np.uint16)


def likeliest(laws: Laws) -> ClassMap:
    """Which hypothesis makes a label likeliest, among those that do for any label."""
    best = laws.probabilities.argmax(axis=0)
    return np.asarray(np.unique(best, return_inverse=True)[1]).astype(np.uint16)


def cells(laws: Laws, bits: int, number: int) -> ClassMap:
    """Cut the labels into ``2**bits`` cells by Scheffé's sets between random public groups."""
    # Each bit splits the hypotheses into two groups and asks which one makes the label likelier,
    # that is for the sign of ``Σ_j ±f_j``.
    taken = range(number * bits, (number + 1) * bits)
    signs = [_splits(laws, d // _BLOCK)[d % _BLOCK] for d in taken]
    return np.asarray((1 << np.arange(bits)) @ np.array(signs)).astype(np.uint16)


def side(laws: Laws, code: int) -> ClassMap:
    """On which side of a plane a label lies: the sign of ``Σ_j c_j f_j``, see `as_code`."""
    coefficients = np.frombuffer(code.to_bytes(laws.hypotheses, "big"), dtype=np.int8)
    return np.asarray(coefficients @ _grid(laws, 7) > 0).astype(np.uint16)


def regions(laws: Laws, classes: int, code: int) -> ClassMap:
    """Which of C linear scores ``Σ_j c_j f_j`` of a label is largest, see `as_code`."""
    rows = code.to_bytes(classes * laws.hypotheses, "big")
    coefficients = np.frombuffer(rows, dtype=np.int8).reshape(classes, -1)
    return np.asarray((coefficients @ _grid(laws, 7)).argmax(axis=0)).astype(np.uint16)


def as_code(coefficients: NDArray[np.float64]) -> int:
    """Write coefficients, shape [K] or [C, K], as one number: rounded to 127ths of the largest."""
    largest = np.abs(coefficients).max() or 1.0
    return int.from_bytes(np.rint(127 * coefficients / largest).astype(np.int8).tobytes(), "big")


@lru_cache(maxsize=8)
def _splits(laws: Laws, block: int) -> NDArray[np.bool_]:
    """Which group makes each label likelier, for `_BLOCK` splits of the hypotheses, [_BLOCK, M]."""
    k = laws.hypotheses
    digest = hashlib.shake_256(f"flwr-kld splits {block}".encode()).digest(-(-_BLOCK * k // 8))
    bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[: _BLOCK * k]
    signs = np.where(bits == 1, 1.0, -1.0).reshape(_BLOCK, k)
    return np.asarray(signs @ _grid(laws, 0) > 0)


@lru_cache(maxsize=2)
def _grid(laws: Laws, bits: int) -> NDArray[np.float64]:
    """``f_j - f̄`` on a grid of integers, shape [K, M]."""
    # Sums with coefficients of this many bits stay below 2**53: they are exact in whatever order.
    room = 52 - bits - laws.hypotheses.bit_length()
    return np.asarray(np.rint(np.ldexp(laws.probabilities - laws.mean, room)))
