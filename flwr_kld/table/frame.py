"""Columns of what loaders return: data frames, arrays, lists, and files."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain, Symbols
from flwr_kld.table.dialect import DELIMITERS, Dialect, opened
from flwr_kld.table.records import Column, as_column, number_of

if TYPE_CHECKING:
    import pyarrow

    from flwr_kld.table.texts import Texts

_MOST_NAMES = 10
"""Columns that a message names."""
_FLOAT = np.dtype(np.float64)
BY = " × "
"""Between the names of two features whose combinations are a column."""
_NOT_A_FRAME = (
    "records of several features must be a data frame (of pandas, polars or pyarrow, not a lazy "
    "one: collect it), a mapping of feature to array, a structured array, or a list of dicts"
)


class TextColumn(Sequence[str | None]):
    """A column of a text file: each different text once, and which of them is in each row.

    The texts are in the order of the rows that have them first.
    """

    def __init__(
        self,
        different: pyarrow.Array,
        place: NDArray[np.int32],
        numbers: NDArray[np.float64] | None = None,
    ) -> None:
        self.different, self.place, self._plain = different, place, numbers
        self._numbers: dict[str, NDArray[np.float64]] = {}

    def numbers(self, dialect: Dialect) -> NDArray[np.float64]:
        """Return the number that each different text is, NaN of none; read once, not to change."""
        from flwr_kld.table.texts import numbers_of

        mark = dialect.decimal
        if mark not in self._numbers:
            plain = self._plain if mark == "." else None
            self._numbers[mark] = numbers_of(self.different, dialect) if plain is None else plain
        return self._numbers[mark]

    @cached_property
    def are_plain(self) -> bool:
        """Whether each text is a finite number as programs write it, without spaces around."""
        return self._plain is not None and bool(np.isfinite(self._plain).all())

    def among(self, some: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each different text is one of some."""
        from flwr_kld.table.texts import are_among

        if self.are_plain:
            some = [text for text in some if math.isfinite(number_of(text))]
        return are_among(self.different, [*some])

    @cached_property
    def texts(self) -> list[str | None]:
        """The text of each row, None for an empty one."""
        from flwr_kld.table.texts import as_list

        known = [text or None for text in as_list(self.different)]
        return [known[place] for place in self.place.tolist()]

    def __getitem__(self, row: Any) -> Any:
        return self.texts[row]

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.place)

    def __eq__(self, other: object) -> bool:
        return self.texts == (other.texts if isinstance(other, TextColumn) else other)


class TextFile(Mapping[str, TextColumn]):
    """A text file in a table's dialect, but for what its owner says; it maps names to columns.

    A table encodes it a few lines at a time, unless the columns were looked at before. What is
    public is refused rather than mended where it is odd.
    """

    def __init__(
        self,
        file: str | Path,
        own: Mapping[str, Any] | None = None,
        dialect: Dialect | None = None,
        *,
        public: bool = False,
        rows: slice = slice(None),
    ) -> None:
        self.file, self.own, self.public, self.rows = Path(file), dict(own or {}), public, rows
        self.dialect = replace(dialect or Dialect(), **self.own)
        self.names: list[str] = []  # Of all columns, once it is read

    def read_by(self, dialect: Dialect) -> Self:
        """Return the file as a table of this dialect reads it."""
        if self.dialect == replace(dialect, **self.own):
            return self
        return type(self)(self.file, self.own, dialect, public=self.public, rows=self.rows)

    def spelt(self, dialect: Dialect) -> Self:
        """Return the file in a dialect of its own; columns that are held if they are cut alike."""
        own = asdict(dialect)
        if not own["sentinels"]:  # which say what columns hold: they stay those of the table
            del own["sentinels"]
        found = type(self)(self.file, own, public=self.public, rows=self.rows)
        if self.is_held and _cut(found.dialect) == _cut(self.dialect):
            found.names, found._columns = self.names, self._columns
        return found

    def blocks(self, names: Iterable[str] | None = None) -> Iterator[dict[str, pyarrow.Array]]:
        """Yield columns of texts, some lines at a time; all of them also as dictionaries."""
        from flwr_kld.table.lines import Lines  # a node that reads no text needs no pyarrow

        try:
            with opened(self.file) as stream:
                lines = Lines(stream, self.dialect, public=self.public)
                self.names = lines.names
                yield from lines.blocks(names, self.rows)
        except UnicodeDecodeError:
            raise DomainError(
                f"{self.file} is not {self.dialect.encoding} text: convert it, or name its encoding"
            ) from None
        except DomainError as error:
            raise DomainError(f"{self.file}: {error}") from None

    @cached_property
    def _columns(self) -> dict[str, TextColumn]:
        from flwr_kld.table.texts import coded

        held: dict[str, list[pyarrow.Array]] = {}
        for block in self.blocks():
            for name, texts in block.items():
                held.setdefault(name, []).append(texts)
        return {name: TextColumn(*coded(held.pop(name))) for name in list(held)}

    @property
    def is_held(self) -> bool:
        """Whether its columns are in memory."""
        return "_columns" in self.__dict__

    def __getitem__(self, name: str) -> TextColumn:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _cut(dialect: Dialect) -> tuple[str, str, str]:
    """Return what of a dialect cuts a file into columns of texts."""
    return dialect.delimiter, dialect.encoding, dialect.line_end


class OwnColumns(dict[str, Any]):
    """A frame's columns, in a table's dialect but for what their owner says."""

    def __init__(self, frame: Any, own: Mapping[str, Any]) -> None:
        super().__init__(columns_of(frame))
        self.own = own

    def __repr__(self) -> str:
        return "OwnColumns(…)"  # shows no value


class Features:
    """Features of a frame, the domain of each, how texts are written, and the columns they read."""

    def __init__(
        self,
        domains: Mapping[str, Domain],
        dialect: Dialect | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self._domains, self._dialect = domains, dialect or Dialect()
        self._sources = sources or {name: name for name in domains}

    def blocks(self, records: Any) -> Iterator[list[Symbols]]:
        """Map the rows of a frame to one symbol in each feature, some rows at a time."""
        sources = set(self._sources.values())
        own = records.own if isinstance(records, TextFile | OwnColumns) else {}
        dialect = replace(self._dialect, **own)
        file = records.read_by(self._dialect) if isinstance(records, TextFile) else None
        if file is None or file.is_held:
            columns = columns_of(records, sources)
            yield self._symbols(
                columns, partial(self._read_plain, dialect), public=file is not None and file.public
            )
            return
        texts = {name: self._texts(name, dialect) for name in self._domains}
        for block in file.blocks(sources):
            yield self._symbols(
                block,
                lambda name, column: texts[name].values(column),
                file.names,
                public=file.public,
            )

    def _read_plain(self, dialect: Dialect, name: str, values: Any) -> NDArray[Any]:
        """Read a column, its texts as the dialect says; whatever else it holds stays as it is."""
        source, domain = self._sources[name], self._domains[name]
        if type(values) is np.ndarray:
            if values.dtype == _FLOAT and values.ndim == 1 and source not in dialect.sentinels:
                return domain.encode(values)  # as the rest would
        else:
            if _are_arrow_texts(values) and values.num_chunks:
                texts = self._texts(name, dialect)
                return np.concatenate([texts.values(chunk) for chunk in values.iterchunks()])
            if isinstance(values, TextColumn):
                read = self._texts(name, dialect)
                symbols: NDArray[Any] = read.different(
                    values.different, values.numbers, values.among
                )
                return symbols[values.place]
        return domain.encode(dialect.plain(texts_in(values), source, domain.reads, domain.listed))

    def _texts(self, name: str, dialect: Dialect) -> Texts:
        """Return what reads Arrow's texts for a feature."""
        from flwr_kld.table.texts import Texts  # others need no pyarrow

        return Texts(self._sources[name], self._domains[name], dialect)

    def _symbols(
        self,
        columns: Mapping[str, Any],
        read: Callable[[str, Any], NDArray[Any]],
        names: Iterable[str] = (),
        *,
        public: bool = False,
    ) -> list[Symbols]:
        found = []
        for name, source in self._sources.items():
            if source not in columns:
                raise DomainError(
                    f"records have no column {source!r}, which the domain needs"
                    + _found(source, [*names] or [*columns], shown=public)
                )
            try:
                found.append(read(name, columns[source]))
            except DomainError as error:
                raise DomainError(f"feature {name!r}: {error}") from None
        if len({len(column) for column in found}) > 1:
            raise DomainError("every feature must hold the same number of records")
        return found


def in_one(blocks: Iterator[Symbols]) -> Symbols:
    """Put the symbols of some rows after those of others, none of them twice in memory."""
    one = next(blocks)
    for number, block in enumerate(blocks):
        if number == 0:
            one = one.copy()  # which then grows where it is
        rows = len(one)
        one.resize((rows + len(block), *one.shape[1:]), refcheck=False)
        one[rows:] = block
    return one


def texts_in(values: Any) -> Column:
    """Take a column as `as_column` does; one that may hold texts is a list, or a file's own."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "biuf":
        return values  # vectors
    if type(values) is TextColumn:
        return cast(Column, values)  # which serves wherever a list does
    column = as_column(values)
    if isinstance(column, np.ndarray) and column.dtype.kind in "OSU":
        return list(column.tolist())
    return column


def _are_arrow_texts(values: Any) -> bool:
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(values, pyarrow.ChunkedArray):
        return False
    return values.type in (pyarrow.string(), pyarrow.large_string())


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
    import narwhals as nw  # where frames are read

    try:
        frame = nw.from_native(records, eager_only=True)
        return {name: frame.get_column(name).to_native() for name in frame.columns}
    except Exception:  # its text may quote the data
        raise DomainError(f"{_NOT_A_FRAME}; its columns' names must be distinct") from None


def require_names(columns: Iterable[Any]) -> None:
    """Refuse names of columns that are no text, as those of `pandas.DataFrame(array)` are."""
    for name in columns:
        if not isinstance(name, str) or not name.strip():
            raise DomainError(
                f"a column's name is a text, not {name!r}: name the columns, as with "
                "frame.columns = ['age', 'job'] in pandas"
            )


def _found(wanted: str, names: list[str], *, shown: bool) -> str:
    """Say what may have been meant, and of public rows which columns there are."""
    names = list(map(str, names))
    for name in names:
        if name.strip().casefold() == wanted.strip().casefold():
            return f": it has {name!r}, and names are the same letter by letter"
    for mark in DELIMITERS:
        if any(mark in name for name in names):
            return f": its header looks divided at {mark!r}, name it as the delimiter"
    if not shown:
        return f": they have {len(names)} others"
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f": it has {', '.join(map(repr, names[:_MOST_NAMES]))}{more}"


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
