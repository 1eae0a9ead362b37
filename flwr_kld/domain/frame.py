"""Rows of several features, as loaders hand them over: a data frame, arrays by name, or a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Symbols
from flwr_kld.errors import DomainError


def encode_features(records: Any, features: Mapping[str, Domain]) -> dict[str, Symbols]:
    """Map the rows of a frame to one symbol in each feature.

    Parameters
    ----------
    records : mapping of feature to array [n], data frame, or structured array [n]
        Other columns are ignored.
    features : Mapping[str, Domain]
        What is read, at least one.

    Returns
    -------
    dict[str, Symbols]
        int64 [n] of each feature.

    Raises
    ------
    DomainError
        If there is no column for a feature or it is not a column (the message names the feature),
        or columns differ in length, whatever they hold.
    """
    names = _column_names(records)
    symbols: dict[str, Symbols] = {}
    for name, domain in features.items():
        if name not in names:
            raise DomainError(f"records have no column {name!r}, which the domain needs")
        try:
            symbols[name] = domain.encode(records[name])
        except DomainError as error:
            raise DomainError(f"feature {name!r}: {error}") from None
    if len({len(column) for column in symbols.values()}) > 1:
        raise DomainError("every feature must hold the same number of records")
    return symbols


def joint(symbols: list[NDArray[np.int64]], sizes: list[int]) -> Symbols:
    """Return the number of each combination, in mixed radix, the last feature fastest."""
    total = symbols[0]
    for own, size in zip(symbols[1:], sizes[1:], strict=True):
        total = total * size + own
    return total


def _column_names(records: Any) -> set[str]:
    """Return the names of the columns of a structured array, mapping or data frame."""
    if isinstance(records, np.ndarray):
        return set(records.dtype.names or ())
    if hasattr(records, "keys"):
        return set(records.keys())
    raise DomainError(
        "records of several features must be a mapping of feature to array, a data frame or "
        "a structured array"
    )
