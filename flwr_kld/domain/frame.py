"""Rows of several features, as loaders hand them over: a data frame, arrays by name, or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Symbols
from flwr_kld.domain.binned import Binned, BinnedColumns, plain_numbers
from flwr_kld.domain.dialect import Dialect, TextFile
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.records import Column, as_column
from flwr_kld.errors import DomainError

BY = " × "
"""Between the names of two features whose combinations are a column."""
_NOT_A_FRAME = (
    "records of several features must be a data frame (of pandas, polars or pyarrow, not a lazy "
    "one: collect it), a mapping of feature to array, a structured array, or a list of dicts"
)


class Features:
    """Features of a frame, the domain of each, and how texts are written."""

    def __init__(self, domains: Mapping[str, Domain], dialect: Dialect | None = None) -> None:
        self._domains, self._dialect = domains, dialect or Dialect()
        self._read: dict[str, Callable[[Any], NDArray[Any]]] = {}
        binned: dict[int, Binned] = {}
        for row, (name, domain) in enumerate(domains.items()):
            self._read[name] = domain.encode
            # What inherits from Binned may encode otherwise.
            if type(domain) is Binned and len(domain.edges) <= BinnedColumns.MOST_EDGES:
                self._read[name], binned[row] = plain_numbers, domain
        self._binned, self._bins = list(binned), BinnedColumns(list(binned.values()))

    def encode(self, records: Any) -> Symbols:
        """Map the rows of a frame to one symbol in each feature."""
        dialect = self._dialect
        if isinstance(records, TextFile):
            records = records.read_by(dialect)
            dialect = records.dialect
        columns, read = columns_of(records, self._read), []
        for name, reader in self._read.items():
            if name not in columns:
                raise DomainError(f"records have no column {name!r}, which the domain needs")
            try:
                read.append(reader(_plain(columns[name], name, self._domains[name], dialect)))
            except DomainError as error:
                raise DomainError(f"feature {name!r}: {error}") from None
        if len({len(column) for column in read}) > 1:
            raise DomainError("every feature must hold the same number of records")
        if self._binned:
            bins = self._bins.encode([read[row] for row in self._binned])
            for row, symbols in zip(self._binned, bins, strict=True):
                read[row] = symbols
        return np.array(read)


def _plain(values: Any, name: str, domain: Domain, dialect: Dialect) -> Any:
    """Read a column's texts as its dialect says; whatever else it holds stays as it is."""
    column = texts_in(values)
    kept = domain.names if isinstance(domain, Labels) else ()
    return dialect.plain(column, name, domain.reads, kept) if isinstance(column, list) else column


def texts_in(values: Any) -> Column:
    """Take a column as `as_column` does; one that may hold texts is a list."""
    if type(values) is np.ndarray and values.dtype.kind in "biufmM":
        return values
    column = as_column(values)
    if isinstance(column, np.ndarray) and column.dtype.kind in "OU":
        return column if np.ma.isMaskedArray(column) else list(column.tolist())
    return column


def columns_of(records: Any, names: Iterable[str] | None = None) -> Mapping[str, Any]:
    """Take a frame apart into its columns."""
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
    """Read a Parquet file by pyarrow: polars refuses whole files for one text that is not UTF-8."""
    try:
        return nw.read_parquet(file, backend="pyarrow").to_native()
    except ModuleNotFoundError:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from None


def joint(symbols: Symbols, sizes: list[int]) -> Symbols:
    """Return the number of each combination, in mixed radix, the last feature fastest."""
    total: Symbols = symbols[0]
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
