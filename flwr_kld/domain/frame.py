"""Rows of several features, as loaders hand them over: a data frame, arrays by name, or a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Symbols
from flwr_kld.errors import DomainError

_NOT_A_FRAME = (
    "records of several features must be a data frame (of pandas, polars or pyarrow, not a lazy "
    "one: collect it), a mapping of feature to array, a structured array, or a list of dicts"
)


def encode_features(records: Any, features: Mapping[str, Domain]) -> dict[str, Symbols]:
    """Map the rows of a frame to one symbol in each feature.

    Parameters
    ----------
    records : data frame, mapping of feature to array [n], structured array [n], or list of dicts
        Other columns are ignored. In a list, a row without a key is 'missing' there, and so is,
        in every feature, a row that is no dict: a refusal would tell of it.
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
    columns = columns_of(records, features)
    symbols: dict[str, Symbols] = {}
    for name, domain in features.items():
        if name not in columns:
            raise DomainError(f"records have no column {name!r}, which the domain needs")
        try:
            symbols[name] = domain.encode(columns[name])
        except DomainError as error:
            raise DomainError(f"feature {name!r}: {error}") from None
    if len({len(column) for column in symbols.values()}) > 1:
        raise DomainError("every feature must hold the same number of records")
    return symbols


def columns_of(records: Any, names: Iterable[str] | None = None) -> Mapping[str, Any]:
    """Take a frame apart into its columns.

    Parameters
    ----------
    records : data frame, mapping of feature to array [n], structured array [n], or list of dicts
        The frame.
    names : Iterable of str, optional
        The keys of a list of dicts that are read; by default all that occur.

    Returns
    -------
    Mapping of str to column
        In the frame's order.

    Raises
    ------
    DomainError
        If it is none of these, or two columns of a data frame have the same name.
    """
    if isinstance(records, Mapping):
        return records
    if isinstance(records, list | tuple):
        if names is None:
            names = dict.fromkeys(key for row in records for key in row)
        return {name: _values(records, name) for name in names}
    if isinstance(records, np.ndarray):
        if records.dtype.names is None:
            raise DomainError(_NOT_A_FRAME)
        return {name: records[name] for name in records.dtype.names}
    try:
        frame = nw.from_native(records, eager_only=True)
        return {name: frame.get_column(name).to_native() for name in frame.columns}
    except Exception:  # its text may quote the data
        raise DomainError(f"{_NOT_A_FRAME}; its columns' names must be distinct") from None


def read_parquet(file: str) -> Any:
    """Read a Parquet file with what is installed.

    Raises
    ------
    ImportError
        If neither pyarrow nor polars is.
    """
    for backend in ("pyarrow", "polars"):
        try:
            return nw.read_parquet(file, backend=backend).to_native()
        except ModuleNotFoundError:
            continue
    raise ImportError("Parquet files need pyarrow or polars: pip install pyarrow")


def joint(symbols: list[NDArray[np.int64]], sizes: list[int]) -> Symbols:
    """Return the number of each combination, in mixed radix, the last feature fastest."""
    total = symbols[0]
    for own, size in zip(symbols[1:], sizes[1:], strict=True):
        total = total * size + own
    return total


def _values(rows: Sequence[Any], name: str) -> list[Any]:
    """Return what each row of a list holds under a name."""
    try:
        if all(type(row) is dict for row in rows):
            return [row.get(name) for row in rows]
    except Exception:  # a key may override what it likes
        pass
    return [_value(row, name) for row in rows]


def _value(row: Any, name: str) -> Any:
    """Return what one row of a list holds; None if nothing."""
    try:
        return row[name] if isinstance(row, Mapping) and name in row else None
    except Exception:  # a row may override what it likes
        return None
