"""What a domain is: a public, finite list of symbols, one for each value that a record can take.

A domain is total: it turns *any* record into one of the symbols 0, 1, ..., size-1, because a
refusal that depended on a record would tell of it. Server and clients must use the same domain, so
it has a JSON form (``spec``) and a fingerprint that both sides compare. Nothing in a domain depends
on private data.
"""

import hashlib
import json
import operator
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.errors import DomainError

Symbols = NDArray[np.int64]
Spec = dict[str, Any]


class Domain(ABC):
    """A finite set of symbols and the rule that maps a record to one of them (a table: to several).

    Two domains are equal when their specs are.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 2
    """Of the spec. Version 1 refused records that fit none of the listed symbols."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of symbols."""

    @property
    def parts(self) -> tuple[slice, ...]:
        """Symbols of which a record has one: all of them, or in a table each column's."""
        return (slice(0, self.size),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of symbols of each of `parts`."""
        return tuple(part.stop - part.start for part in self.parts)

    @property
    def per_record(self) -> int:
        """Symbols that a record has: one, or in a table as many as columns."""
        return len(self.parts)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Ways in which a record fits none of the symbols that the spec lists, in words."""
        return ()

    def unlisted_way(self) -> NDArray[np.int64]:
        """Which of `unlisted` each symbol stands for, -1 if the spec lists it; shape [size]."""
        # in most domains each way has one symbol, and they come last
        ways = np.arange(self.size) - (self.size - len(self.unlisted))
        return np.maximum(ways, -1)

    @abstractmethod
    def encode(self, records: Any) -> Symbols:
        """Map records to symbols, each by itself: no other record changes its symbol.

        Parameters
        ----------
        records : Any
            n records, in the form the concrete domain describes. No records give no symbols.

        Returns
        -------
        Symbols
            int64 [n], each in 0 .. size-1; of a table int64 [n, columns], one of each of `parts`.

        Raises
        ------
        DomainError
            If ``records`` as a whole has not that form, whatever the values in it. The message
            never shows a record.
        """

    def holds(self, symbols: Symbols) -> bool:
        """Whether these are what `encode` is to give: int64 [n], each in 0 .. size-1."""
        if symbols.ndim != 1 or symbols.dtype != np.int64:
            return False
        return not len(symbols) or bool(symbols.min() >= 0 and symbols.max() < self.size)

    @abstractmethod
    def name_of(self, symbol: SupportsIndex) -> str:
        """Name a symbol in the domain's own terms.

        Raises
        ------
        DomainError
            If ``symbol`` is not in 0 .. size-1.
        """

    @abstractmethod
    def spec(self) -> Spec:
        """Return a JSON-able description, from which ``domain_from_spec`` rebuilds the domain."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the spec, in hexadecimal."""
        canonical = json.dumps(self.spec(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _header(self) -> Spec:
        return {"kind": self.kind, "version": self.version}

    def _index(self, symbol: SupportsIndex) -> int:
        try:
            index = operator.index(symbol)
        except TypeError:
            index = -1
        if not 0 <= index < self.size:
            raise DomainError(f"a symbol of this domain is an integer from 0 to {self.size - 1}")
        return index


def as_array(records: Any) -> NDArray[Any]:
    """Convert records to an array without letting a value into an error."""
    try:
        return np.asarray(records)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            "records do not form an array: give every record the same shape and a numeric type"
        ) from None
