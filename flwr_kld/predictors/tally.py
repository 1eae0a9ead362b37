"""The integer state of a predictor: which rows of a design's law were reported, and how often.

Kept by round and context; counts only ever add up.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from flwr_kld.kernel.arguments import integer, set_fields
from flwr_kld.predictors.designs import Design, Integers
from flwr_kld.predictors.laws import Floats


@dataclass(frozen=True, eq=False)
class LocalReports:
    """A batch of reports from one round and context."""

    round: int  # Number of the round; rounds are ordered, reports within a round are not
    queries: Integers  # Shape [n]
    symbols: Integers  # Shape [n]
    context: str = ""  # Context that all reports share

    def __post_init__(self) -> None:
        set_fields(self, round=integer("round", self.round, least=0))
        if self.queries.ndim != 1 or self.symbols.shape != self.queries.shape:
            raise ValueError("a batch of reports needs queries [n] and symbols [n]")


@dataclass(frozen=True, eq=False)
class RowCounts:
    """Counts of the rows that occurred."""

    rows: Integers  # Ascending, shape [r]
    counts: Integers  # Positive, shape [r]

    @classmethod
    def of(cls, rows: Integers) -> RowCounts:
        """Count one row a report, in any order; shape [n]."""
        return cls(*np.unique(rows, return_counts=True))

    def __add__(self, other: RowCounts) -> RowCounts:
        """Add counts of other reports."""
        rows, place = np.unique(np.concatenate([self.rows, other.rows]), return_inverse=True)
        total = np.zeros(len(rows), dtype=np.int64)
        np.add.at(total, place, np.concatenate([self.counts, other.counts]))
        return RowCounts(rows, total)

    def log_likelihood(self, design: Design) -> Floats:
        """``Σ n ln Q_j(z | q)`` for each hypothesis, shape [K], in nats."""
        return np.asarray(self.counts @ design.log_law[self.rows])

    def pack(self) -> str:
        """Return the counts as text; `unpack` reads it."""
        steps = np.diff(self.rows, prepend=0)
        raw = np.stack([steps, self.counts]).astype("<i8").tobytes()
        return base64.b64encode(zlib.compress(raw)).decode()

    @classmethod
    def unpack(cls, text: str, design: Design) -> RowCounts:
        """Read counts of reports to a design."""
        try:
            raw = zlib.decompress(base64.b64decode(text, validate=True))
            steps, counts = np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(2, -1)
        except (TypeError, ValueError, binascii.Error, zlib.error):
            raise ValueError("stored counts are not readable") from None
        rows = np.cumsum(steps)
        if (steps[1:] <= 0).any() or (rows < 0).any() or (counts <= 0).any():
            raise ValueError("stored counts are not readable")
        if (rows >= len(design.law)).any():
            raise ValueError("stored counts belong to other queries")
        return cls(rows, counts)


Contexts = dict[str, RowCounts]


class Tally:
    """Counts that only ever add up: order, batches and servers leave no trace."""

    def __init__(self) -> None:
        self._rounds: dict[int, Contexts] = {}

    def add(self, round: int, context: str, counts: RowCounts) -> None:
        """Add counts to a round's context."""
        contexts = self._rounds.setdefault(round, {})
        contexts[context] = contexts[context] + counts if context in contexts else counts

    def __iter__(self) -> Iterator[tuple[int, Contexts]]:
        """Yield rounds in order, and contexts in order within a round."""
        for number in sorted(self._rounds):
            yield number, dict(sorted(self._rounds[number].items()))

    def drop(self, round: int) -> None:
        """Forget a round."""
        del self._rounds[round]

    def together(
        self, designs: Callable[[int, str], Design], context: str
    ) -> dict[Design, RowCounts]:
        """Return a context's counts of all rounds, by the design that their reports answer."""
        total: dict[Design, RowCounts] = {}
        for number, contexts in self:
            if (counts := contexts.get(context)) is not None:
                asked = designs(number, context)
                total[asked] = total[asked] + counts if asked in total else counts
        return total

    def pack(self) -> dict[str, dict[str, str]]:
        """Return the counts as JSON; `unpack` reads it."""
        return {str(n): {c: own.pack() for c, own in contexts.items()} for n, contexts in self}

    @classmethod
    def unpack(
        cls, packed: Mapping[str, Mapping[str, str]], designs: Callable[[int, str], Design]
    ) -> Tally:
        """Read counts of reports to what was asked in each round and context."""
        tally = cls()
        for number, contexts in packed.items():
            for context, text in contexts.items():
                tally.add(
                    int(number), context, RowCounts.unpack(text, designs(int(number), context))
                )
        return tally
