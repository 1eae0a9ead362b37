"""Reads the text of each record whose label nobody listed, for questions that discover labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from flwr_kld.kernel.selection import LONGEST
from flwr_kld.table.base import Domain, Spec, Symbols
from flwr_kld.table.labels import Labels
from flwr_kld.table.records import as_column, text_of, values_in
from flwr_kld.table.table import Table

_WORDS = LONGEST // 8
"""Numbers of 64 bits that hold a text."""


@dataclass(frozen=True, eq=False)
class UnlistedTexts(Domain):
    """The text itself of what `Labels` calls 'other'; an empty one stands for all else.

    No file holds this domain; both sides make it of the column's own.
    """

    labels: Labels  # Of the column

    @property
    def size(self) -> int:
        """One: nothing is counted by cell."""
        return 1

    def encode(self, records: Any) -> Symbols:
        """Return the bytes of each text, filled up with zeros, as int64 [records, 5]."""
        column = as_column(records)
        places = np.flatnonzero(self.labels.encode(column) == len(self.labels.names))
        if isinstance(column, np.ndarray):
            values = values_in(column[places])
        else:
            values = [column[place] for place in places.tolist()]
        texts = np.zeros(len(column), f"S{LONGEST}")
        read = map(text_of, values)
        texts[places] = [b"" if text is None else _cut(text) for text in read]
        words: Symbols = texts.view(np.int64).reshape(len(column), _WORDS)
        return words

    def name_of(self, symbol: SupportsIndex) -> str:
        """Name the only cell."""
        self._index(symbol)
        return "any"

    def spec(self) -> Spec:
        """Return what the texts depend on."""
        return {"labels": self.labels.spec()}


class UnlistedTextsTable(Table):
    """A table of one column, `UnlistedTexts`."""

    def holds(self, symbols: Symbols) -> bool:
        """Whether these are texts."""
        return symbols.shape[1:] == (_WORDS,) and symbols.dtype == np.int64

    def _numbered(self, symbols: list[Symbols]) -> Symbols:
        (texts,) = symbols
        return np.asarray(texts)


def _cut(text: str) -> bytes:
    """Return a text in UTF-8, as many of its first characters as `LONGEST` bytes hold.

    Without zeros at its end, which those that fill it up would pass for.
    """
    return text.encode(errors="replace")[:LONGEST].decode(errors="ignore").encode().rstrip(b"\0")
