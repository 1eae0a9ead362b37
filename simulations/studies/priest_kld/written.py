"""What many writers wrote, as counts: the records of the study."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_writers
from flwr_kld.table.block_patterns import BlockPatterns

Integers = NDArray[np.int64]
WRITERS, RECORDS = 3_580, 100
"""FEMNIST's writers, as many as the paper has, and about what each of them writes."""
_DIGITS = 10


@dataclass(frozen=True, eq=False)
class Written:
    """Records of all writers, over the symbols that occur at all."""

    domain: BlockPatterns  # All symbols
    occurring: Integers  # Symbols of the domain that somebody wrote, ascending, shape [K]
    # Of each record: a place in `occurring`, the digit it shows, and 0, 1, … for the writer
    symbol: Integers
    digit: Integers
    writer: Integers

    @classmethod
    def load(cls, source: str, writers: int = WRITERS, *, cropped: bool = False) -> Written:
        """Load and encode the digits of a source; writers are made if it has none.

        By default blocks are those of the whole image, as in the paper.
        """
        data = load_writers(source, writers, RECORDS)
        domain = data.patterns(cropped=cropped)
        occurring, symbol = np.unique(domain.encode(data.images), return_inverse=True)
        writer = np.unique(data.writer, return_inverse=True)[1]
        return cls(domain, occurring.astype(np.int64), symbol, data.labels, writer)

    @cached_property
    def writers(self) -> int:
        """How many there are."""
        return int(self.writer.max()) + 1

    @cached_property
    def digest(self) -> str:
        """Of all records: results of other data are other results."""
        hasher = hashlib.sha256(repr(self.domain).encode())
        for values in (self.occurring, self.symbol, self.digit, self.writer):
            hasher.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
        return hasher.hexdigest()[:16]

    @cached_property
    def counts(self) -> Integers:
        """Records of all writers by digit and symbol, shape [10, K]."""
        return self.cohort(np.arange(self.writers))

    @cached_property
    def laws(self) -> NDArray[np.float64]:
        """Each digit's law over the symbols, of all writers, shape [10, K]."""
        law: NDArray[np.float64] = self.counts / self.counts.sum(axis=1, keepdims=True)
        return law

    def cohort(self, writers: Integers) -> Integers:
        """Count what some writers wrote, shape [10, K]."""
        chosen = np.zeros(self.writers, dtype=bool)
        chosen[writers] = True
        mine, width = chosen[self.writer], len(self.occurring)
        cells = self.digit[mine] * width + self.symbol[mine]
        return np.bincount(cells, minlength=_DIGITS * width).reshape(_DIGITS, width)

    @cached_property
    def records_by_writer(self) -> Integers:
        """How many records each writer has of each digit, shape [writers, 10]."""
        cells = self.writer * _DIGITS + self.digit
        return np.bincount(cells, minlength=self.writers * _DIGITS).reshape(-1, _DIGITS)

    def wrote(self, digit: int, symbols: Integers) -> tuple[Integers, Integers]:
        """Return each record of the symbols, by its place in `symbols`, and who wrote it."""
        width = len(self.occurring)
        cells = self._in_order[1]
        first = np.searchsorted(cells, digit * width + symbols)
        times = np.searchsorted(cells, digit * width + symbols, side="right") - first
        query = np.repeat(np.arange(len(symbols)), times)
        within = np.arange(len(query)) - np.repeat(np.cumsum(times) - times, times)
        return query, self.writer[self._in_order[0][first[query] + within]]

    @cached_property
    def _in_order(self) -> tuple[Integers, Integers]:
        """Records by digit and symbol, and those cells in order."""
        cells = self.digit * len(self.occurring) + self.symbol
        order = np.argsort(cells, kind="stable")
        return order, cells[order]

    def reference(self, digit: int) -> Reference:
        """Take as Π what all writers write as a digit."""
        counts = np.zeros(self.domain.size, dtype=np.int64)
        counts[self.occurring] = self.counts[digit]
        return Reference.from_counts(self.domain, counts)
