"""Vectors, such as embeddings that users compute themselves, by the nearest public centroid."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Symbols, as_array
from flwr_kld.domain.records import as_column, masked_in, values_in
from flwr_kld.errors import DomainError

_FINE, _FAR = 14, 20
"""Binary digits of the largest coordinate of a centroid, and of any vector."""
_WIDEST = 2**16
"""Coordinates, at most: the sum of so many products of whole numbers is exact in float64."""


@dataclass(frozen=True, eq=False)
class Nearest(Domain):
    """Vectors, each counted as the nearest of k public centroids; and 'missing'.

    Coordinates are rounded to whole steps of a power of two, 2¹³ or more of them to the largest
    coordinate of a centroid, so that all processors find the same one; from 64 times that on they
    are cut off. Of centroids that are equally near, the first counts. Whatever is no vector of as
    many finite numbers is 'missing', the last symbol. A text is read as a JSON list.

    Parameters
    ----------
    centroids : Sequence of Sequence of float
        Shape [k, d], finite, all different, chosen without looking at private data.

    Raises
    ------
    DomainError
        If they are not that, or differ by less than a step.

    Examples
    --------
    >>> Nearest([[0.0, 0.0], [1.0, 1.0]]).encode([[0.9, 0.8], [-5, 0], [0, float("nan")], None])
    array([1, 0, 2, 2])
    """

    centroids: Sequence[Sequence[float]]
    kind: ClassVar[str] = "nearest"
    unlisted: ClassVar[tuple[str, ...]] = ("missing",)

    def __post_init__(self) -> None:
        table = as_array(self.centroids)
        if table.ndim != 2 or table.dtype.kind not in "iuf" or not 0 < table.shape[1] <= _WIDEST:
            raise DomainError(
                f"Nearest needs centroids [k, d] of numbers, of up to {_WIDEST:,} coordinates"
            )
        table = table.astype(np.float64) + 0.0  # -0.0 and 0.0 are the same
        if not np.isfinite(table).all() or len(table) < 2:
            raise DomainError("Nearest needs two centroids or more, of finite numbers")
        object.__setattr__(self, "centroids", tuple(map(tuple, table.tolist())))
        if len(np.unique(self._whole, axis=0)) < len(table):
            raise DomainError("the centroids of Nearest must differ by a step or more")

    @property
    def size(self) -> int:
        """Number of centroids, and one."""
        return len(self.centroids) + 1

    def encode(self, records: Any) -> Symbols:
        """Map vectors to the nearest centroid, and all else to 'missing'.

        `records` are an array [n, d], or a column or sequence of n vectors; the rest is as in
        `Domain.encode`.
        """
        vectors = self._vectors(records)
        missing = ~np.isfinite(vectors).all(axis=1)
        whole = np.clip(self._in_steps(vectors), -(2.0**_FAR), 2.0**_FAR)
        whole[missing] = 0
        # Whole numbers below 2**53 throughout, so that no order of the sums rounds any.
        squared = (self._whole**2).sum(axis=1) - 2 * (whole @ self._whole.T)
        symbols = squared.argmin(axis=1)
        symbols[missing] = self.size - 1
        return np.asarray(symbols, dtype=np.int64)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return ``"nearest to centroid 0"``, or ``"missing"``."""
        index = self._index(symbol)
        return "missing" if index == self.size - 1 else f"nearest to centroid {index}"

    @cached_property
    def _whole(self) -> NDArray[np.float64]:
        """The centroids in steps, whole numbers; shape [k, d]."""
        return self._in_steps(np.array(self.centroids))

    def _in_steps(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        largest = max(abs(x) for one in self.centroids for x in one)
        with np.errstate(over="ignore"):
            return np.asarray(np.rint(np.ldexp(vectors, _FINE - math.frexp(largest)[1])))

    def _vectors(self, records: Any) -> NDArray[np.float64]:
        """Read one vector a record, shape [n, d]; NaN where it is none."""
        width = len(self.centroids[0])
        if isinstance(records, np.ndarray) and records.ndim == 2 and records.dtype.kind in "biuf":
            if records.shape[1] != width:
                raise DomainError(f"vectors must have the centroids' {width} coordinates")
            with np.errstate(over="ignore"):
                vectors = np.ma.getdata(records).astype(np.float64)
            vectors[np.ma.getmaskarray(records)] = np.nan
            return vectors
        column = as_column(records)
        vectors = np.full((len(column), width), np.nan)
        for row, value in enumerate(values_in(column)):
            vectors[row] = _vector(value, width)
        vectors[masked_in(column)] = np.nan
        return vectors


def _vector(value: Any, width: int) -> Any:
    """Read one record by itself."""
    try:
        if isinstance(value, str):
            value = json.loads(value)
        if isinstance(value, list | tuple | np.ndarray) and len(value) == width:
            read = np.ma.filled(np.ma.asarray(value, dtype=np.float64), np.nan)
            if read.shape == (width,):
                return read
    except Exception:  # a record may override what it likes
        pass
    return np.nan
