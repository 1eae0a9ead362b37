"""What a domain is: a public, finite list of symbols, one for each value that a record can take.

A domain is total: it turns *any* record into one of the symbols 0, 1, ..., size-1, because a
refusal that depended on a record would leak it. Server and clients must use the same domain, so
it has a JSON form (``spec``) and a fingerprint that both sides compare. Nothing in a domain depends
on private data.
"""

import dataclasses
import hashlib
import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import as_tuple

Symbols = NDArray[np.signedinteger[Any]]
_SYMBOL, _UNSIGNED = np.dtype(np.int64), np.dtype(np.uint64)
Spec = dict[str, Any]
_OURS = (
    "binned", "block_patterns", "categories", "codes", "labels", "score", "table", "times",
)  # fmt: skip
"""Kinds of this package, each in a module of its name, which is imported when it is needed."""
_KINDS: dict[str, type["Domain"]] = {}
"""Every domain that a process knows; a class enters itself when it is defined."""


class Domain(ABC):
    """A finite set of symbols and the rule that maps a record to one of them (a table: to several).

    Two domains are equal when their specs are. A domain of your own says its `kind`, a name that no
    other has, and is then stored and sent as any other: see ``docs/tables.md``.

    Raises
    ------
    ValueError
        When a class is defined whose `kind` another class has.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    """Of the spec."""
    reads: ClassVar[str] = "text"
    """What it makes of a text in a file: a "number", a "time", or the "text" itself."""
    joins: ClassVar[bool] = False
    """Whether it is made of other domains, so that it cannot itself be a feature of one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kind = cls.__dict__.get("kind")
        if kind is None:  # no concrete domain yet, or one that is written as its base is
            return
        known = _KINDS.get(kind)
        owner = f"{__package__}.{kind}" if kind in _OURS else known and known.__module__
        if owner is not None and owner != cls.__module__:
            raise ValueError(
                f"a domain of kind {kind!r} exists, in {owner}: give {cls.__name__} another kind"
            )
        _KINDS[kind] = cls  # also anew, as a notebook's cell defines it when it is run again

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of symbols."""

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Symbols of which a record has one: all of them, or in a table each column's."""
        return (slice(0, self.size),)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of symbols of each of `parts`."""
        return tuple(part.stop - part.start for part in self.parts)

    @property
    def per_record(self) -> int:
        """Symbols that a record has: one, or in a table as many as columns."""
        return len(self.parts)

    @property
    def listed(self) -> Sequence[Any]:
        """Texts that are values of it, even if they stand for no value elsewhere, such as 'NA'."""
        return ()

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Names of the symbols that the spec does not list, such as 'other' and 'missing'."""
        return ()

    def unlisted_index(self) -> NDArray[np.int64]:
        """Index in `unlisted` of each symbol, -1 if the spec lists it; shape [size]."""
        # in most domains each name has one symbol, and they come last
        return np.maximum(np.arange(self.size) - (self.size - len(self.unlisted)), -1)

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
            int64 [n], each in 0 .. size-1; of a table [n, columns], one of each of `parts`.

        Raises
        ------
        DomainError
            If ``records`` as a whole has not that form, whatever the values in it. The message
            never shows a record.
        """

    def holds(self, symbols: Symbols) -> bool:
        """Whether these are what `encode` is to give: int64 [n], each in 0 .. size-1."""
        if symbols.ndim != 1 or symbols.dtype != _SYMBOL:
            return False
        unsigned = symbols.view(_UNSIGNED)  # of which a negative one is a large one
        return not len(symbols) or unsigned.item(unsigned.argmax()) < self.size

    @abstractmethod
    def name_of(self, symbol: SupportsIndex) -> str:
        """Name a symbol in the domain's own terms.

        Raises
        ------
        DomainError
            If ``symbol`` is not in 0 .. size-1.
        """

    def spec(self) -> Spec:
        """Return a JSON-able description: kind, version, and what `from_fields` takes.

        By default, the fields of a data class, which have to be such already.
        """
        data: Any = self
        names = [field.name for field in dataclasses.fields(data)]
        own = {name: _as_json(getattr(self, name)) for name in names}
        return {"kind": self.kind, "version": self.version, **own}

    @classmethod
    def from_fields(cls, fields: Spec) -> Self:
        """Build the domain from its spec without kind and version; by default, its arguments.

        Specs come in messages and files: what does not fit has to raise an exception.
        """
        return cls(**fields)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the spec, in hexadecimal."""
        canonical = json.dumps(self.spec(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _index(self, symbol: SupportsIndex) -> int:
        try:
            index = operator.index(symbol)
        except TypeError:
            index = -1
        if not 0 <= index < self.size:
            raise DomainError(f"a symbol of this domain is an integer from 0 to {self.size - 1}")
        return index


def domain_class(kind: str) -> type[Domain] | None:
    """Return the class of a kind; None if nothing here defines it."""
    if kind in _OURS:
        import_module(f"{__package__}.{kind}")
    return _KINDS.get(kind)


def feature_kinds() -> list[str]:
    """Kinds that a feature of a table can have here."""
    known = {kind: domain_class(kind) for kind in (*_OURS, *_KINDS)}
    return sorted(kind for kind, found in known.items() if found and not found.joins)


def domain_from_spec(spec: Any, *, of_feature: bool = False) -> Domain:
    """Rebuild a domain of one feature from what its ``spec()`` returned."""
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise DomainError("a domain spec is a mapping with a 'kind'")
    fields = dict(spec)
    kind, version = fields.pop("kind"), fields.pop("version", None)
    known = domain_class(kind)
    if known is None or type(version) is not int or version != known.version:
        raise DomainError(
            "the domain spec has a kind or version that nothing here defines: install the same "
            "release of flwr-kld on server and clients, and import the module of a domain of your "
            "own before its spec is read"
        )
    if of_feature and known.joins:
        raise DomainError(f"a domain of kind {kind!r} cannot be a feature of another")
    try:
        domain = known.from_fields(fields)
    except DomainError:
        raise
    except Exception as error:  # a spec may hold anything, and is public
        raise DomainError(f"the domain spec of kind {kind!r} does not fit: {error}") from None
    if domain.spec() != spec:
        raise DomainError("the domain spec is not in the form that spec() writes")
    return domain


def domains_from_pairs(pairs: Any) -> dict[str, Domain]:
    """Rebuild features from the ordered pairs of name and spec of a domain that joins them."""
    named = [(name, domain_from_spec(spec, of_feature=True)) for name, spec in pairs]
    if not all(isinstance(name, str) for name, _ in named):
        raise DomainError("the feature names of a domain must be text")
    return dict(named)


def _as_json(value: Any) -> Any:
    """Return what JSON makes of it: a list of what is in a tuple."""
    return [_as_json(each) for each in value] if isinstance(value, tuple) else value


def unlisted_beside(names: Sequence[str] | Sequence[int]) -> tuple[str, ...]:
    """Return 'other' and 'missing', in brackets until no name is spelt so."""
    ways = []
    for way in ("other", "missing"):
        while way in names:
            way = f"({way})"
        ways.append(way)
    return tuple(ways)


def in_order(what: str, values: Any) -> tuple[Any, ...]:
    """Return the parts of a list; refuse a set: each process has another order of its texts."""
    if isinstance(values, set | frozenset):
        raise DomainError(f"{what} must be a list, as the order of a set differs between processes")
    return as_tuple(what, values)


def as_array(records: Any) -> NDArray[Any]:
    """Convert records to an array without letting a value into an error."""
    try:
        return np.asarray(records)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            "records do not form an array: give every record the same shape and a numeric type"
        ) from None
