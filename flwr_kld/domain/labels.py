"""Labels: one symbol for each name in a public list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Spec, Symbols
from flwr_kld.errors import DomainError


@dataclass(frozen=True, eq=False)
class Labels(Domain):
    """Categories of one feature; symbol i is ``names[i]``.

    Parameters
    ----------
    names : Sequence of str or of int
        All the labels a record may carry, distinct, all text or all integers. Their order matters.

    Raises
    ------
    DomainError
        If there are no names, two are equal, or text and integers are mixed.

    Examples
    --------
    >>> Labels(["red", "green"]).encode(["green", "red", "green"])
    array([1, 0, 1])
    """

    names: Sequence[str] | Sequence[int]
    kind: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        array = _as_labels(self.names)
        if len(array) == 0:
            raise DomainError("Labels needs at least one name")
        if len(np.unique(array)) != len(array):
            raise DomainError("the names of Labels must be distinct")
        object.__setattr__(self, "names", tuple(array.tolist()))

    @property
    def size(self) -> int:
        """Number of names."""
        return len(self.names)

    def encode(self, records: Any) -> Symbols:
        """Map labels to their places in ``names``.

        Parameters
        ----------
        records : array or sequence [n]
            Text if the names are text, integers if they are integers.

        Returns
        -------
        Symbols
            int64 [n].

        Raises
        ------
        DomainError
            If the shape or type is wrong, or a record holds a label that is not among the names.
        """
        labels = _as_labels(records)
        if len(labels) == 0:
            return np.empty(0, dtype=np.int64)
        ordered, symbols = self._sorted
        if (labels.dtype.kind == "U") != (ordered.dtype.kind == "U"):
            raise DomainError(
                "records and names differ in type: both must be text or both integers; "
                "convert the records with .astype(str) or .astype(int)"
            )
        place = np.minimum(np.searchsorted(ordered, labels), self.size - 1)
        if (ordered[place] != labels).any():
            raise DomainError(
                "records hold a category that is not in the domain; "
                "add it to the names, or map it to a name such as 'other' first"
            )
        return symbols[place]

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the label itself."""
        return str(self.names[self._index(symbol)])

    def spec(self) -> Spec:
        """Return the names, in order."""
        return {**self._header(), "names": list(self.names)}

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], Symbols]:
        """Names in ascending order [size], and the symbol of each [size]."""
        names = _as_labels(self.names)
        order = np.argsort(names).astype(np.int64)
        return names[order], order


def _as_labels(values: Any) -> NDArray[Any]:
    """Return labels as a text or int64 array [n]; refuse anything else."""
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else _from_sequence(values)
    if array.ndim == 1 and array.dtype.kind == "U":
        return array
    if array.ndim == 1 and array.dtype.kind in "iu":
        if array.dtype == np.uint64 and (array > np.iinfo(np.int64).max).any():
            raise DomainError("integer labels must fit in 64 signed bits")
        return array.astype(np.int64)
    if array.shape == (0,):
        return np.empty(0, dtype=np.int64)
    raise DomainError(
        "labels must be one-dimensional text or integers (not object, float or bool); "
        "convert them with .astype(str) or .astype(int)"
    )


def _from_sequence(values: Any) -> NDArray[Any]:
    """Return a list of str or of int as an array; anything else as an array that is refused."""
    refused = np.empty(1, dtype=object)
    if isinstance(values, str | bytes | Mapping):
        return refused
    try:
        items = list(values)
    except TypeError:
        return refused
    types = set(map(type, items))
    if all(issubclass(t, str) for t in types):
        return np.asarray(items, dtype=np.str_)
    if all(issubclass(t, int | np.integer) and t is not bool for t in types):
        try:
            return np.asarray(items, dtype=np.int64)
        except OverflowError:
            raise DomainError("integer labels must fit in 64 signed bits") from None
    return refused
