"""From the JSON form of a domain back to the domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from flwr_kld.codec.model import Flag, Model, Real, Text, Whole
from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.domain.times import Times
from flwr_kld.errors import DomainError


class _Spec(Model, what="the domain spec", refused=DomainError):
    """What stands in a spec beside its kind and version."""

    def domain(self) -> Domain:
        """Build it; the domain's own constructor says which values it takes."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Labels(_Spec, what="the domain spec of labels", refused=DomainError):
    names: tuple[Text, ...] | tuple[Whole, ...]

    def domain(self) -> Domain:
        return Labels(self.names)


@dataclass(frozen=True)
class _Binned(_Spec, what="the domain spec of bins", refused=DomainError):
    edges: tuple[Real, ...]

    def domain(self) -> Domain:
        return Binned(self.edges)


@dataclass(frozen=True)
class _Times(_Spec, what="the domain spec of times", refused=DomainError):
    by: Text | tuple[Text, ...]

    def domain(self) -> Domain:
        return Times(self.by)


@dataclass(frozen=True)
class _BlockPatterns(_Spec, what="the domain spec of block patterns", refused=DomainError):
    threshold: Real
    ink: Literal["bright", "dark"]
    pixels: Literal["uint8", "digits", "unit"]
    side: Whole
    faint: Real
    crop: Flag

    def domain(self) -> Domain:
        return BlockPatterns(**vars(self))


@dataclass(frozen=True)
class _Categories(_Spec, what="the domain spec of categories", refused=DomainError):
    features: tuple[tuple[Text, dict[str, Any]], ...]

    def domain(self) -> Domain:
        return Categories({name: _rebuilt(spec, _OF_ONE) for name, spec in self.features})


@dataclass(frozen=True)
class _Table(_Spec, what="the domain spec of a table", refused=DomainError):
    features: tuple[tuple[Text, dict[str, Any]], ...]
    interactions: tuple[tuple[Text, Text], ...]
    by: Text | None

    def domain(self) -> Domain:
        features = {name: _rebuilt(spec, _OF_ONE) for name, spec in self.features}
        return Table(features, self.interactions, self.by)


_OF_ONE: dict[str, type[_Spec]] = {
    Labels.kind: _Labels,
    Binned.kind: _Binned,
    Times.kind: _Times,
    BlockPatterns.kind: _BlockPatterns,
}
"""Of one feature; only these are features."""
_VERSION = Domain.version


def domain_from_spec(spec: Any) -> Domain:
    """Rebuild a domain from what its ``spec()`` returned."""
    return _rebuilt(spec, {**_OF_ONE, Categories.kind: _Categories, Table.kind: _Table})


def _rebuilt(spec: Any, kinds: dict[str, type[_Spec]]) -> Domain:
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise DomainError("a domain spec is a mapping with a 'kind'")
    kind, version = kinds.get(spec["kind"]), spec.get("version")
    if kind is not None and version == 1:
        raise DomainError(
            "the domain spec has version 1, whose domains had no symbol for records that do not "
            "fit: build the domain and its reference anew with this release of flwr-kld, and "
            "install the same release on server and clients"
        )
    if kind is None or type(version) is not int or version != _VERSION:
        raise DomainError(
            "the domain spec has a kind or version this release of flwr-kld does not know; "
            "install the same release on server and clients"
        )
    fields = {key: value for key, value in spec.items() if key not in ("kind", "version")}
    domain = kind.from_file(fields).domain()
    if domain.spec() != spec:
        raise DomainError("the domain spec is not in the form that spec() writes")
    return domain
