"""What a record tells when a question asks for the labels that nobody listed: a hash, or a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Spec, Symbols
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.records import as_column, text_of, values_in
from flwr_kld.domain.table import Table
from flwr_kld.domain.tree_code import SYMBOLS, cut, encoded
from flwr_kld.kernel.selection import LONGEST

_WORDS = LONGEST // 8
"""Numbers of 64 bits that hold a text."""


@dataclass(frozen=True, eq=False)
class Spelled(Domain):
    """One histogram of the tree code of what `Labels` calls 'other'.

    The last symbol stands for all else: a listed label, a missing value, and what has no text. No
    file holds this domain; both sides make it of the column's own and a question's salt.
    """

    labels: Labels  # Of the column
    salt: str  # Public, of one question
    position: int  # Which histogram

    @property
    def size(self) -> int:
        """Number of cells, and one."""
        return SYMBOLS + 1

    def encode(self, records: Any) -> Symbols:
        """Map labels to the cells of their spelling; records and errors are those of `Labels`."""
        size, others, spelt = _unlisted(self.labels, records)
        symbols = np.full(size, SYMBOLS, dtype=np.int64)
        different = [text for text in dict.fromkeys(spelt) if text]
        cells = dict(zip(different, encoded(different, self.salt, self.position), strict=True))
        symbols[others] = [cells.get(text, SYMBOLS) for text in spelt]
        return symbols

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the cell's number, or what has none."""
        index = self._index(symbol)
        return "listed, missing or no text" if index == SYMBOLS else f"cell {index}"

    def spec(self) -> Spec:
        """Return what the cells depend on."""
        return {"labels": self.labels.spec(), "salt": self.salt, "position": self.position}


@dataclass(frozen=True, eq=False)
class Written(Domain):
    """The text itself of what `Labels` calls 'other'; an empty one stands for all else."""

    labels: Labels  # Of the column

    @property
    def size(self) -> int:
        """One: nothing is counted by cell."""
        return 1

    def encode(self, records: Any) -> Symbols:
        """Return the bytes of each text, filled up with zeros, as int64 [records, 5]."""
        size, others, spelt = _unlisted(self.labels, records)
        texts = np.zeros(size, f"S{LONGEST}")
        texts[others] = spelt
        words: Symbols = texts.view(np.int64).reshape(size, _WORDS)
        return words

    def name_of(self, symbol: SupportsIndex) -> str:
        """Name the only cell."""
        self._index(symbol)
        return "any"

    def spec(self) -> Spec:
        """Return what the texts depend on."""
        return {"labels": self.labels.spec()}


class WrittenTable(Table):
    """A table of one column, `Written`."""

    def holds(self, symbols: Symbols) -> bool:
        """Whether these are texts."""
        return symbols.shape[1:] == (_WORDS,) and symbols.dtype == np.int64

    def _numbered(self, symbols: Symbols) -> Symbols:
        (texts,) = symbols
        return np.asarray(texts)


def _unlisted(labels: Labels, records: Any) -> tuple[int, NDArray[np.int64], list[bytes]]:
    """Return how many records there are, which labels call 'other', and the texts of these.

    A text is empty for what has none.
    """
    column = as_column(records)
    places = np.flatnonzero(labels.encode(column) == len(labels.names))
    if isinstance(column, np.ndarray):
        values = values_in(column[places])
    else:
        values = [column[place] for place in places.tolist()]
    texts = map(text_of, values)
    return len(column), places, [b"" if text is None else cut(text) for text in texts]
