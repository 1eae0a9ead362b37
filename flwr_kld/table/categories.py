"""Joint categories of several features of a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain, Spec, Symbols, domains_from_pairs
from flwr_kld.table.frame import Features, in_one, joint
from flwr_kld.table.labels import Labels

_LARGEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Categories(Domain):
    """The product of several one-feature domains; a symbol is a combination of categories.

    Each feature has its own 'other' or 'missing', so that every row of a table has a symbol.
    Symbols count in mixed radix with the first feature most significant, so the last feature
    varies fastest.

    Parameters
    ----------
    features : Mapping of str to (Domain or Sequence of names)
        One domain for each feature, in order. A list of names stands for ``Labels(names)``.

    Raises
    ------
    DomainError
        If there is no feature, a feature name is not text, a feature itself joins others, or there
        are more combinations than a 64-bit integer can number.

    Examples
    --------
    >>> Categories({"sex": ["f", "m"], "hand": ["left", "right"]}).encode(
    ...     {"sex": ["f", "m"], "hand": ["right", None]}
    ... )
    array([1, 7])
    """

    features: Mapping[str, Domain | Sequence[str] | Sequence[int]]
    kind: ClassVar[str] = "categories"
    joins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", features_of("Categories", self.features))
        if self.size > _LARGEST:
            raise DomainError("the joint domain has too many combinations; use fewer features")

    @cached_property
    def _read(self) -> Features:
        return Features(self.domains)

    @property
    def domains(self) -> dict[str, Domain]:
        """Domain of each feature, in order."""
        return {name: d for name, d in self.features.items() if isinstance(d, Domain)}

    @property
    def size(self) -> int:
        """Number of combinations: the product of the features' sizes."""
        return math.prod(domain.size for domain in self.domains.values())

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Ways to be unlisted of each feature, such as ``"'other' in hand"``."""
        return tuple(f"'{own}' in {name}" for name, d in self.domains.items() for own in d.unlisted)

    def unlisted_index(self) -> NDArray[np.int64]:
        """Index in `unlisted` of a combination's first unlisted feature; -1 if all are listed."""
        index, before = np.full(1, -1), 0
        for domain in self.domains.values():
            own = domain.unlisted_index()
            own[own >= 0] += before
            index = np.where(index[:, None] >= 0, index[:, None], own).ravel()
            before += len(domain.unlisted)
        return index

    def encode(self, records: Any) -> Symbols:
        """Map rows of a table to symbols.

        Parameters
        ----------
        records : data frame, mapping of feature to array [n], structured array [n], list of dicts
            Data frames of pandas, polars or pyarrow. Columns that are not features of the domain
            are ignored.

        Returns
        -------
        Symbols
            int64 [n].

        Raises
        ------
        DomainError
            If there is no column for a feature or it is not a column (the message names the
            feature), or columns differ in length, whatever they hold.
        """
        sizes = [domain.size for domain in self.domains.values()]
        return in_one(joint(np.array(symbols), sizes) for symbols in self._read.blocks(records))

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the combination as ``"sex=f, hand=left"``."""
        index = self._index(symbol)
        parts = []
        for name, domain in reversed(self.domains.items()):
            index, digit = divmod(index, domain.size)
            parts.append(f"{name}={domain.name_of(digit)}")
        return ", ".join(reversed(parts))

    def spec(self) -> Spec:
        """Return the features as ordered pairs of name and spec."""
        pairs = [[name, domain.spec()] for name, domain in self.domains.items()]
        return {**super().spec(), "features": pairs}

    @classmethod
    def from_fields(cls, fields: Spec) -> Self:
        """Build it from the pairs of its spec."""
        return cls(**{**fields, "features": domains_from_pairs(fields["features"])})


def features_of(what: str, features: Any) -> dict[str, Domain]:
    """Return the features that a domain joins, each with a domain of its own."""
    if not isinstance(features, Mapping) or not features:
        raise DomainError(f"{what} needs a mapping with at least one feature")
    domains = {
        name: domain if isinstance(domain, Domain) else Labels(domain)
        for name, domain in features.items()
    }
    if not all(isinstance(name, str) for name in domains):
        raise DomainError(f"the feature names of {what} must be text")
    if any(domain.joins for domain in domains.values()):
        raise DomainError(
            f"a feature of {what} has a domain of one feature: list features side by side, and "
            "name pairs in a Table's interactions="
        )
    return domains
