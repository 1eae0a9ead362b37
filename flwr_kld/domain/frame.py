"""Rows of several features, as loaders hand them over: a data frame, arrays by name, or a list."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Symbols
from flwr_kld.domain.binned import Binned, BinnedColumns, plain_numbers
from flwr_kld.errors import DomainError

_NOT_A_FRAME = (
    "records of several features must be a data frame (of pandas, polars or pyarrow, not a lazy "
    "one: collect it), a mapping of feature to array, a structured array, or a list of dicts"
)
_HEADER = re.compile(rb"([^\r\n]*)(\r?\n|\r|\Z)")
_BINARY = re.compile("[\0-\x08\x0e-\x1f]")
"""What no text has, and files of other kinds have at their beginning."""


class Features:
    """Features of a frame, and the domain of each."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
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
        columns, read = columns_of(records, self._read), []
        for name, reader in self._read.items():
            if name not in columns:
                raise DomainError(f"records have no column {name!r}, which the domain needs")
            try:
                read.append(reader(columns[name]))
            except DomainError as error:
                raise DomainError(f"feature {name!r}: {error}") from None
        if len({len(column) for column in read}) > 1:
            raise DomainError("every feature must hold the same number of records")
        if self._binned:
            bins = self._bins.encode([read[row] for row in self._binned])
            for row, symbols in zip(self._binned, bins, strict=True):
                read[row] = symbols
        return np.array(read)


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


def read_csv(file: str | Path, *, public: bool = False) -> dict[str, list[str | None]]:
    """Read text only: a reader that guesses a column's type lets one record change all others.

    A record is a line, whatever is in it, so that no value changes the number of records or where
    another begins. Of public rows, a line that nodes would cut, fill up or mend is refused. Proof:
    docs/proofs/records.md.
    """
    content = Path(file).read_bytes()
    head, end = _HEADER.match(content).groups()  # type: ignore[union-attr]  # matches anything
    names = _names(head)
    # ASCII is ASCII whatever stands before it: as if each line were decoded by itself.
    text = content[len(head) + len(end) :].decode(errors="strict" if public else "replace")
    lines = text.split(end.decode() or "\n")
    if not lines[-1]:
        lines.pop()
    blank, fields = [""] * len(names), list[str]()
    usual = csv.field_size_limit(sys.maxsize)
    try:
        for number, line in enumerate(lines, 2):
            line = line.rstrip("\r\n").replace("\r", " ").replace("\n", " ")
            (row,) = csv.reader([line])
            if public and row and len(row) != len(names):
                raise DomainError(
                    f"line {number} has {len(row)} fields and the header {len(names)}: each line "
                    "is a row, so texts must have no line breaks"
                )
            fields += row if len(row) == len(names) else (row + blank)[: len(names)]
    finally:
        csv.field_size_limit(usual)
    return {name: [t or None for t in fields[i :: len(names)]] for i, name in enumerate(names)}


def read_public_csv(file: str | Path) -> dict[str, list[str | None]]:
    """Read public rows as nodes read theirs; says which file cannot be read, and why."""
    try:
        return read_csv(file, public=True)
    except UnicodeDecodeError:
        raise DomainError(f"{file} is not UTF-8 text: convert it, for example with iconv") from None
    except DomainError as error:
        raise DomainError(f"{file}: {error}") from None


def distinct(names: list[str]) -> list[str]:
    """Return the names of columns; refuse two that are the same."""
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise DomainError(f"two columns have the name {twice[0]!r}: rename one")
    return names


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


def _names(head: bytes) -> list[str]:
    """Read the header, which is public: other kinds of files are recognised by it."""
    if not head:
        raise DomainError("it is empty, or its first line is: write a header of column names there")
    try:
        header = head.decode("utf-8-sig")
        if _BINARY.search(header):
            raise ValueError
        (names,) = csv.reader([header], strict=True)
    except (ValueError, csv.Error):
        raise DomainError(
            "its first line is not a header of column names in UTF-8, with each quote closed: "
            "convert or decompress the file"
        ) from None
    return distinct(names)
