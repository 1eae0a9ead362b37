"""Numbers counted at grid points within their bins: what a question for statistics asks.

A bin tells little of a mean. So each inner bin of a column is cut, evenly and publicly, and a
number counts at one of the two grid points around it: at the upper one with the probability that
makes its expectation the number itself (stochastic rounding; with the weights as counts it is
linear binning, Wand 1994). A record is in one cell, whatever its coins, so it moves what it did.
The cells of a bin add up to its count. Proof note: ``docs/proofs/counts.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import SystemBits
from flwr_kld.table.base import Domain, Spec, Symbols
from flwr_kld.table.binned import Binned
from flwr_kld.table.records import as_column, numbers_in

_COIN = 2**24
"""Places between two grid points that are distinguished."""


@dataclass(frozen=True, eq=False)
class Places(Domain):
    """Where in its bin each number is: read of texts one by one, before any coin is tossed."""

    binned: Binned
    intervals: int  # Of each inner bin
    reads = Binned.reads

    @property
    def span(self) -> int:
        """Places of a bin."""
        return self.intervals * _COIN + 1

    @property
    def size(self) -> int:
        """Places of all bins, labels and 'missing'."""
        return self.binned.size * self.span

    @property
    def listed(self) -> Any:
        """The labels."""
        return self.binned.listed

    def encode(self, records: Any) -> Symbols:
        """Map numbers to places, and all else to the first place of its symbol."""
        symbols, last = self.binned.encode(records), len(self.binned.edges)
        places = symbols * self.span
        inner = (symbols > 0) & (symbols < last)
        numbers, edges = numbers_in(as_column(records))[inner], np.array(self.binned.edges)
        bins = symbols[inner]
        part = (numbers - edges[bins - 1]) / (edges[bins] - edges[bins - 1])
        places[inner] += (part * (self.span - 1)).astype(np.int64).clip(0, self.span - 1)
        return places

    def name_of(self, symbol: SupportsIndex) -> str:
        """Name the bin."""
        return self.binned.name_of(self._index(symbol) // self.span)


@dataclass(frozen=True, eq=False)
class RoundedNumbers(Domain):
    """Grid points of a column of numbers: of each inner bin so many intervals' ends.

    No file holds this domain; both sides make it of the column's own.
    """

    binned: Binned
    intervals: int
    reads = Binned.reads

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.binned.kind)

    @property
    def size(self) -> int:
        """Number of cells: of grid points, the outer bins, labels and 'missing'."""
        return len(self.bin_of)

    @property
    def listed(self) -> Any:
        """The labels."""
        return self.binned.listed

    @property
    def unlisted(self) -> tuple[str, ...]:
        """As the column's own."""
        return self.binned.unlisted

    @cached_property
    def bin_of(self) -> NDArray[np.int64]:
        """Symbol of the column's own domain that each cell is a part of, shape [size]."""
        cells = np.ones(self.binned.size, dtype=np.int64)
        cells[1 : len(self.binned.edges)] = self.intervals + 1
        return np.repeat(np.arange(self.binned.size), cells)

    @cached_property
    def points(self) -> NDArray[np.float64]:
        """The grid points, and the edge of each outer bin: of all cells of numbers, ascending."""
        edges = np.array(self.binned.edges)
        inner = np.linspace(edges[:-1], edges[1:], self.intervals + 1, axis=1)
        return np.concatenate([edges[:1], np.minimum(inner, edges[1:, None]).ravel(), edges[-1:]])

    @cached_property
    def places(self) -> Places:
        """What reads a column, its coins aside."""
        return Places(self.binned, self.intervals)

    def encode(self, records: Any) -> Symbols:
        """Map numbers to grid points at random, and all else to its own cell."""
        return self.rounded(self.places.encode(records))

    def rounded(self, places: Symbols) -> Symbols:
        """Round places to grid points, each with a coin of its own."""
        symbols, place = np.divmod(places, self.places.span)
        point, rest = np.divmod(place, _COIN)
        coins = np.random.default_rng(SystemBits().words(4)).integers(_COIN, size=len(places))
        first = np.searchsorted(self.bin_of, np.arange(self.binned.size))
        return np.asarray(first[symbols] + point + (coins < rest))

    def name_of(self, symbol: SupportsIndex) -> str:
        """Name the bin."""
        return self.binned.name_of(self.bin_of[self._index(symbol)])

    def spec(self) -> Spec:
        """Return what the cells depend on."""
        return {"binned": self.binned.spec(), "intervals": self.intervals}
