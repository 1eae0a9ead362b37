"""What a record counts as when a question asks for the labels that nobody listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from flwr_kld.domain.base import Domain, Spec, Symbols
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.records import Column, as_column, text_of, values_in
from flwr_kld.domain.tree_code import SYMBOLS, cut, encoded


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
        column = as_column(records)
        symbols = np.full(len(column), SYMBOLS, dtype=np.int64)
        others = np.flatnonzero(self.labels.encode(column) == len(self.labels.names))
        spelt = [_text(value) for value in _those(column, others)]
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


def _text(value: Any) -> bytes:
    """Return a label's text as it is told apart; an empty one for what has none."""
    text = text_of(value)
    return b"" if text is None else cut(text)


def _those(column: Column, places: Any) -> list[Any]:
    """Return the values at some places."""
    if isinstance(column, np.ndarray):
        return values_in(column[places])
    return [column[place] for place in places.tolist()]
