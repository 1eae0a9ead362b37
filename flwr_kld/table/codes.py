"""Codes of which there are too many to list: some by name, the rest in public groups."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import integer, set_fields
from flwr_kld.table.base import Domain, Symbols, in_order, unlisted_beside
from flwr_kld.table.records import as_column, is_missing, masked_in, text_of, values_in


@dataclass(frozen=True, eq=False)
class Codes(Domain):
    """Codes, of which some have a name; symbols are the names, the buckets, 'other' and 'missing'.

    A code that is not among the names falls into a bucket, by a checksum that is the same
    everywhere (CRC-32 of its UTF-8 bytes), or is 'other' if there are no buckets. So is whatever is
    neither text nor a number. A number is the code that it is written as: 7, 7.0 and '7' are one,
    '07' is another: read files as text.

    Parameters
    ----------
    names : Sequence of str
        The codes that are told apart, distinct. Their order matters.
    buckets : int
        Number of groups of the other codes. A code is always in the same one, so that a shift among
        them shows, though not of which code. Default 0.
    prefix : int, optional
        Characters of a code that count: with 3, 'I21.4' and 'I21.9' are both 'I21', which is what
        the names then list. By default all.

    Raises
    ------
    ValueError
        If a name is no text, longer than the prefix, or there twice, there is neither name nor
        bucket, or a number is out of range.

    Examples
    --------
    >>> places = Codes(["80", "81"], prefix=2)
    >>> [places.name_of(i) for i in places.encode(["80331", "81667", "10115", None])]
    ['80…', '81…', 'other', 'missing']
    >>> Codes(["ATL"], buckets=2).name_of(1)
    'bucket 1 of 2'
    """

    names: Sequence[str]
    buckets: int = 0
    prefix: int | None = None
    kind: ClassVar[str] = "codes"

    def __post_init__(self) -> None:
        names = in_order("names", self.names)
        buckets = integer("buckets", self.buckets, least=0)
        prefix = None if self.prefix is None else integer("prefix", self.prefix, least=1)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise DomainError("the names of Codes are texts, all different")
        if any(len(name) > (prefix or len(name)) for name in names):
            raise DomainError(f"the names of Codes are prefixes of {prefix} characters at most")
        if not names and not buckets:
            raise DomainError("Codes needs names, or buckets, or both")
        set_fields(self, names=names, buckets=buckets, prefix=prefix)

    @property
    def size(self) -> int:
        """Number of names and buckets, and two."""
        return len(self.names) + self.buckets + 2

    @property
    def listed(self) -> Sequence[str]:
        """The names, if they are whole codes."""
        return self.names if self.prefix is None else ()

    @property
    def unlisted(self) -> tuple[str, ...]:
        """'other' and 'missing'; in brackets where a name is spelt so."""
        return unlisted_beside(self.names)

    def encode(self, records: Any) -> Symbols:
        """Map codes to their names' places or their buckets, and all else to 'other' or 'missing'.

        `records` are an array, a data frame's column, or a sequence of n values of any type;
        the rest is as in `Domain.encode`.
        """
        column = as_column(records)
        if isinstance(column, np.ndarray) and column.dtype.kind in "MV":
            symbols = np.full(len(column), self.size - 2, dtype=np.int64)
        else:
            known: dict[str, int] = {}
            each = [self._read(value, known) for value in values_in(column)]
            symbols = np.array(each, dtype=np.int64)
        symbols[masked_in(column)] = self.size - 1
        return symbols

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the code, its prefix as ``"I21…"``, ``"bucket 3 of 16"``, 'other' or 'missing'."""
        index = self._index(symbol)
        if index < len(self.names):
            return self.names[index] + ("" if self.prefix is None else "…")
        index -= len(self.names)
        if index < self.buckets:
            return f"bucket {index + 1} of {self.buckets}"
        return self.unlisted[index - self.buckets]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def _read(self, value: Any, known: dict[str, int]) -> int:
        """Return a record's symbol; each different text is mapped once."""
        if is_missing(value):
            return self.size - 1
        text = text_of(value)
        if text is None:
            return self.size - 2
        if text not in known:
            known[text] = self._symbol(text)
        return known[text]

    def _symbol(self, text: str) -> int:
        code = text[: self.prefix]
        place = self._places.get(code)
        if place is not None:
            return place
        rest = len(self.names)
        if not self.buckets:
            return rest
        return rest + zlib.crc32(code.encode("utf-8", "surrogatepass")) % self.buckets
