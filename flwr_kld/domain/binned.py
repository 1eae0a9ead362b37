"""Numbers, binned by public edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from flwr_kld.domain.base import Domain, Spec, Symbols, as_array
from flwr_kld.errors import DomainError


@dataclass(frozen=True, eq=False)
class Binned(Domain):
    """Real numbers cut at k public edges into k+1 bins.

    The bins are ``x < e0``, ``e0 <= x < e1``, ..., ``x >= e(k-1)``: the outer two are open, so
    every number has a bin and nothing is dropped or clipped. Infinities are numbers here and fall
    in the outer bins. NaN has no bin and is refused. Records are compared as float64.

    Parameters
    ----------
    edges : Sequence of float
        Finite and strictly increasing. Choose them without looking at private data.

    Raises
    ------
    DomainError
        If the edges are not a strictly increasing list of finite numbers.

    Examples
    --------
    >>> Binned([0, 10]).encode([-5.0, 0.0, 9.9, 10.0])
    array([0, 1, 1, 2])
    """

    edges: Sequence[float]
    kind: ClassVar[str] = "binned"

    def __post_init__(self) -> None:
        edges = as_array(self.edges)
        if edges.ndim != 1 or edges.dtype.kind not in "iuf" or len(edges) == 0:
            raise DomainError("Binned needs a list of at least one numeric edge")
        edges = edges.astype(np.float64) + 0.0  # -0.0 and 0.0 are the same edge
        if not np.isfinite(edges).all() or (edges[1:] <= edges[:-1]).any():
            raise DomainError("the edges of Binned must be finite and strictly increasing")
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    @property
    def size(self) -> int:
        """Number of bins: one more than edges."""
        return len(self.edges) + 1

    def encode(self, records: Any) -> Symbols:
        """Map numbers to bins.

        Parameters
        ----------
        records : array or sequence [n]
            Integers or floats.

        Returns
        -------
        Symbols
            int64 [n].

        Raises
        ------
        DomainError
            If the records are not one-dimensional numbers, or one is NaN.
        """
        numbers = as_array(records)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
            raise DomainError(
                "records must be one-dimensional integers or floats (not object, text or bool); "
                "convert them with .astype(float)"
            )
        if np.isnan(numbers).any():
            raise DomainError("records hold NaN, which has no bin; drop or impute missing values")
        bins = np.searchsorted(np.asarray(self.edges), numbers.astype(np.float64), side="right")
        return bins.astype(np.int64)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the bin as ``"< a"``, ``"[a, b)"`` or ``">= b"``."""
        index = self._index(symbol)
        names = [repr(edge).removesuffix(".0") for edge in self.edges]
        if index == 0:
            return f"< {names[0]}"
        if index == len(names):
            return f">= {names[-1]}"
        return f"[{names[index - 1]}, {names[index]})"

    def spec(self) -> Spec:
        """Return the edges."""
        return {**self._header(), "edges": list(self.edges)}
