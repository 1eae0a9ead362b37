"""Numbers, binned by public edges."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.table.base import Domain, Spec, Symbols, as_array, in_order, unlisted_beside
from flwr_kld.table.records import (
    all_true,
    as_column,
    as_number,
    masked_in,
    number_of,
    numbers_in,
    text_of,
    values_in,
)

LEAST_POWER = 2.0**-20
"""What is less, and at least 0, is as good as 0 where `Binned.powers` cuts."""
FARTHEST = 1e75
"""Of an edge from 0: errors of a variance are fourth powers, which float64 must hold, too."""
_FLOAT = np.dtype(np.float64)
_TAIL = 0.01
"""Values in each outer one of quantile bins."""
_TAILED = 5
"""Bins from which on there are such tails."""


@dataclass(frozen=True, eq=False)
class Binned(Domain):
    """Real numbers cut at k public edges into k+1 bins, labels beside them, and 'missing'.

    The bins are ``x < e0``, ``e0 <= x < e1``, ..., ``x >= e(k-1)``: the outer two are open, so
    every number has a bin and nothing is dropped or clipped. A text that spells a number is that
    number, True and 'true' are 1, and a duration is its seconds. Whatever is no finite number (NaN,
    infinities, None, NaT, masked values, other text, other types) is the label that it is spelt as,
    or 'missing', the last symbol. Records are compared as float64; a float of less precision is the
    decimal of few digits that it stands for, so that .7 is not below .7.

    Parameters
    ----------
    edges : Sequence of float
        Strictly increasing, within ±1e75. Choose them without looking at private data.
    means : Sequence of float, optional
        Mean of the public values in each bin, with which a report estimates means. By default,
        values are taken to lie evenly in a bin, and at the edge of an outer one.
    labels : Sequence of str
        Texts that are no finite numbers and are told apart, such as ``["<0.5", "inf"]``; each has a
        symbol after those of the bins. By default none.

    Raises
    ------
    DomainError
        If the edges are not a strictly increasing list of such numbers, the means do not lie in
        their bins and within ±1e75, or a label is no text, spells a number, or is there twice.

    Examples
    --------
    >>> Binned([0, 10]).encode([-5.0, 0.0, 9.9, 10.0, None])
    array([0, 1, 1, 2, 3])
    """

    edges: Sequence[float]
    means: Sequence[float] | None = field(default=None, repr=False)
    labels: Sequence[str] = ()
    kind: ClassVar[str] = "binned"
    reads: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        edges = as_array(self.edges)
        if edges.ndim != 1 or edges.dtype.kind not in "iuf" or len(edges) == 0:
            raise DomainError("Binned needs a list of at least one numeric edge")
        edges = edges.astype(np.float64) + 0.0  # -0.0 and 0.0 are the same edge
        if not (abs(edges) <= FARTHEST).all() or (edges[1:] <= edges[:-1]).any():
            raise DomainError(
                f"the edges of Binned must be strictly increasing and within ±{FARTHEST:g}"
            )
        object.__setattr__(self, "edges", tuple(edges.tolist()))
        if self.means is not None:
            object.__setattr__(self, "means", _in_bins(self.means, edges))
        labels = in_order("labels", self.labels)
        if len(set(labels)) < len(labels) or not all(
            isinstance(label, str) and not math.isfinite(number_of(label)) for label in labels
        ):
            raise DomainError(
                "the labels of Binned are texts, all different, none of them a number"
            )
        object.__setattr__(self, "labels", labels)

    @classmethod
    def quantiles(cls, values: Any, bins: int = 20) -> "Binned":
        """Cut between public values, so that the outer bins hold 1 % and the others equally many.

        The bins' means are those of the values, so that a report's mean is right for skewed ones.

        Parameters
        ----------
        values : array, data frame's column, or sequence [n]
            Public ones, of which the edges are some; what is no finite number is left out, and what
            is beyond ±1e75, such as the largest number that stands for none, is taken to be there.
        bins : int
            Most bins; of fewer than five, the outer ones hold as many as the others. Values that
            are often the same get fewer, and no more different values than bins get a bin each.
            Default 20.

        Raises
        ------
        ValueError
            If there is no finite number, or no two bins.
        """
        bins = integer("bins", bins, least=2)
        numbers = numbers_in(as_column(values))
        numbers = numbers[np.isfinite(numbers)].clip(-FARTHEST, FARTHEST)
        if not len(numbers):
            raise DomainError("quantile bins need at least one finite number")
        numbers.sort()
        return cls.cut(numbers, quantile_cuts(numbers, bins))

    @classmethod
    def cut(
        cls, ordered: NDArray[np.float64], edges: NDArray[np.float64], labels: Sequence[str] = ()
    ) -> "Binned":
        """Cut at given edges; the bins' means are those of ordered public numbers within ±1e75."""
        return cls(edges.tolist(), list(_means(ordered, edges)), labels)

    @classmethod
    def uniform(cls, low: float, high: float, bins: int = 20) -> "Binned":
        """Cut from `low` to `high` into bins of the same width, the outer two open.

        Raises
        ------
        ValueError
            If there are no two bins, or no distance between finite bounds.
        """
        bins = integer("bins", bins, least=2)
        low, high = finite("low", low), finite("high", high)
        if not low < high:
            raise DomainError("uniform bins need low < high")
        return cls(np.linspace(low, high, bins + 1)[1:-1].tolist())

    @classmethod
    def powers(cls, low: float | None = None, high: float | None = None) -> "Binned":
        """Cut at powers of two, for numbers whose range nobody knows.

        A first look tells where they lie, `StatisticsReport.rebinned` makes bins of that.

        Parameters
        ----------
        low, high : float, optional
            What is known of the range: edges lie within, and at these. By default edges are 0 and
            2^-20 to 2^40, of either sign.

        Raises
        ------
        ValueError
            If `low` is not below `high`.
        """
        sized = LEAST_POWER * 2.0 ** np.arange(61)
        edges = np.concatenate([-sized[::-1], [0.0], sized])
        ends = [finite("low", low)] if low is not None else []
        ends += [finite("high", high)] if high is not None else []
        if len(ends) == 2 and not ends[0] < ends[1]:
            raise DomainError("a range needs low < high")
        inside = (edges >= ends[0] if low is not None else True) & (
            edges <= ends[-1] if high is not None else True
        )
        return cls(np.unique([*edges[inside], *ends]).tolist())

    @property
    def size(self) -> int:
        """Number of bins, one more than edges, of labels, and one."""
        return len(self.edges) + len(self.labels) + 2

    @property
    def listed(self) -> Sequence[str]:
        """The labels."""
        return self.labels

    @property
    def unlisted(self) -> tuple[str, ...]:
        """'missing'; in brackets where a label is spelt so."""
        return unlisted_beside(self.labels)[1:]

    def encode(self, records: Any) -> Symbols:
        """Map numbers to bins, and all else to 'missing'.

        `records` are an array, a data frame's column, or a sequence of n values of any type;
        the rest is as in `Domain.encode`.
        """
        plain = type(records) is np.ndarray and records.dtype == _FLOAT and records.ndim == 1
        column = records if plain else as_column(records)
        numbers = records if plain else numbers_in(column)
        bins = self._edges.searchsorted(numbers, side="right").astype(np.int64, copy=False)
        finite = np.isfinite(numbers)
        if all_true(finite):
            return bins
        odd = ~finite
        bins[odd] = self.size - 1
        if self.labels:
            held = numbers if plain else values_in(column)
            gone = masked_in(column)
            first = len(self.edges) + 1
            for place in np.flatnonzero(odd & ~gone).tolist():
                text = _odd_text(held[place], self.labels)
                if text in self.labels:
                    bins[place] = first + self.labels.index(text)
        return bins

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the bin as ``"< a"``, ``"[a, b)"`` or ``">= b"``, or ``"missing"``."""
        index = self._index(symbol)
        if index > len(self.edges):
            return (*self.labels, *self.unlisted)[index - len(self.edges) - 1]
        around = self.edges[max(index - 1, 0) : index + 1]
        low, high = (repr(around[end]).removesuffix(".0") for end in (0, -1))
        if index == 0:
            return f"< {high}"
        return f">= {low}" if index == len(self.edges) else f"[{low}, {high})"

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return np.asarray(self.edges, dtype=np.float64)

    def spec(self) -> Spec:
        """Return the edges, and the means and labels if it has some."""
        return {name: own for name, own in super().spec().items() if own not in (None, [])}


def _odd_text(value: Any, labels: Sequence[str]) -> str | None:
    """Return the text of what is no finite number; of an infinity in any spelling, one."""
    text = text_of(value)
    if text in labels:
        return text
    number = as_number(value)
    return None if number != number else text_of(number)


def _in_bins(means: Any, edges: NDArray[np.float64]) -> tuple[float, ...]:
    """Check the means of bins, and return them."""
    found = as_array(means)
    if found.shape != (len(edges) + 1,) or found.dtype.kind not in "iuf":
        raise DomainError("means= has one for each bin, one more than edges, or is left out")
    found = found.astype(np.float64) + 0.0
    inside = (found[:-1] <= edges).all() and (found[1:] >= edges).all()
    if not inside or not (abs(found) <= FARTHEST).all():
        raise DomainError("each of the means= lies in its bin, or they are left out")
    return tuple(found.tolist())


def _means(values: NDArray[np.float64], edges: NDArray[np.float64]) -> Iterator[float]:
    """Yield the mean of sorted values in each bin, to six digits; an edge of one that has none."""
    cuts = [0, *np.searchsorted(values, edges).tolist(), len(values)]
    for bin_, (first, last) in enumerate(pairwise(cuts)):
        if first == last:
            yield float(edges[max(bin_ - 1, 0)])
        else:
            held = values[first:last]
            yield float(min(max(float(_mean(held)), held[0]), held[-1]))


def _mean(held: NDArray[np.float64]) -> str:
    """Write the mean of sorted values, to six digits: the same on every processor."""
    mean, off = np.add.reduce(held) / len(held), 1e-12 * max(-held[0], held[-1])
    least, most = f"{mean - off:.6g}", f"{mean + off:.6g}"
    return least if least == most else f"{math.fsum((held / len(held)).tolist()):.6g}"


def quantile_cuts(ordered: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the edges of so many quantile bins, or of one for each of a few different numbers."""
    steps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    if len(steps) < bins:
        return ordered[steps] if len(steps) else ordered[:1]
    cuts = np.unique(quantiles_of(ordered, bins))
    cuts = cuts[cuts > ordered[0]]  # nothing is below the least value
    return cuts if len(cuts) else ordered[steps[:1]]


def quantiles_of(ordered: NDArray[Any], bins: int) -> NDArray[Any]:
    """Return those of ordered values that cut them into so many bins."""
    places = np.ceil(len(ordered) * quantile_levels(bins) - 1).astype(np.int64)
    return np.asarray(ordered[places.clip(0)])


def quantile_levels(bins: int) -> NDArray[np.float64]:
    """Return the levels at which quantiles cut into so many bins; with tails, if there are five."""
    if bins < _TAILED:
        return np.arange(1, bins) / bins
    return np.linspace(_TAIL, 1 - _TAIL, bins - 1)
