"""Detects the dialect of a public text file. Nodes never do: their dialect is configured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from flwr_kld.table.dialect import DELIMITERS, NO_VALUE, Dialect, opened
from flwr_kld.table.frame import TextColumn
from flwr_kld.table.records import Column, numbers_in, text_of
from flwr_kld.table.texts import are_among, as_list, coded, have, numbers_of

_LINES = 5000
"""That are looked at, behind the header."""
_FIRST = 1 << 20
"""Characters in which they are looked for first."""
SPELLINGS = ("?", "-", "--", ".")
"""Further texts that stand for no value."""
_SENTINELS = (-1, -9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)
_MANY = 100
"""Rows from which on one alone says nothing."""
_FEW = 20
"""Values, in all, that say nothing of which of them are odd."""
_SIGN = re.compile("[$€£¥%]|EUR|USD|GBP|CHF")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(?:\d{4}|\d\d)(?:[T, ].*)?")
_ALIKE = ("iso8859-1", "cp1252")
"""Encodings that are one where no byte is from 0x80 to 0x9f."""
_MOST = 0.9
"""Of a column's texts, so many show what it holds."""


def sniff(file: str | Path, usual: Dialect | None = None) -> Dialect:
    """Propose the dialect of a text file, from its first lines; the usual one where none shows."""
    dialect, lines = sniff_lines(file, usual)
    rows = [row for row in dialect.rows(lines) if row]
    width = len(rows[0]) if rows else 0
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    return recognise({name: column for name, *column in columns}, dialect)


def sniff_lines(file: str | Path, usual: Dialect | None = None) -> tuple[Dialect, list[str]]:
    """Propose delimiter, encoding and line end; return also the lines that were looked at."""
    usual = usual or Dialect()
    with opened(file) as stream:
        content = stream.read()
    encoding = _encoding(content, usual.encoding)
    text = content.decode(encoding, "replace").removeprefix("\ufeff")
    lines = _first_lines(text)
    delimiter = _delimiter(lines) or usual.delimiter
    first = text.find("\n")
    mixed = text[first - 1 : first] == "\r" and text.count("\n") > 2 * text.count("\r\n")
    line_end = "lf" if mixed else usual.line_end
    return Dialect(delimiter, encoding, usual.decimal, usual.dates, line_end=line_end), lines


def recognise(columns: Mapping[str, Column | TextColumn], dialect: Dialect) -> Dialect:
    """Propose how numbers, dates and missing values are spelt in the first rows of columns."""
    held = {name: own for name, column in columns.items() if (own := _Counted.of(column))}
    every = {
        name: held[name] if name in held else _Counted.of_numbers(cast(Column, column))
        for name, column in columns.items()
    }
    many = max(map(len, columns.values()), default=0) >= _MANY
    long = [name for name, column in held.items() if column.total > many]
    spelt = {text for name in long for text in held[name].several(SPELLINGS)}
    missing = (*NO_VALUE, *(text for text in SPELLINGS if text in spelt))
    if spelt:
        every = {name: column.without(spelt) for name, column in every.items()}
    texts = [every[name] for name in long]
    decimal, dates = _decimal(texts, dialect.decimal), _dates(texts, many) or dialect.dates
    dialect = replace(dialect, missing=missing, decimal=decimal, dates=dates)
    return replace(dialect, sentinels=dict(_sentinels(every, dialect, many)))


@dataclass(frozen=True)
class _Counted:
    """The different texts of a column, without spaces around them, and the rows of each."""

    texts: pa.Array
    rows: NDArray[np.int64]
    column: TextColumn
    place: NDArray[np.int64]  # Of each, where the column has it among its different texts

    @classmethod
    def of(cls, column: Column | TextColumn) -> _Counted | None:
        """Count the texts that stand for something; None of what holds others than texts."""
        last = _LINES if isinstance(column, TextColumn) else None
        if not isinstance(column, TextColumn):
            kinds = set() if isinstance(column, np.ndarray) else set(map(type, column))
            if not kinds or not all(issubclass(kind, str | type(None)) for kind in kinds):
                return None
            column = _as_column(text for text in column if text)
        rows = np.bincount(column.place[:last])  # the first rows have the first texts
        return cls._stripped(column, rows)

    @classmethod
    def of_numbers(cls, column: Column) -> _Counted:
        """Count the numbers of a column, as texts."""
        numbers = numbers_in(column)
        different, rows = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
        texts = _as_column(text_of(number) for number in different.tolist())
        return cls._stripped(texts, rows)

    @classmethod
    def _stripped(cls, column: TextColumn, rows: NDArray[np.int64]) -> _Counted:
        texts, place = column.different.slice(0, len(rows)), np.arange(len(rows))
        if column.are_plain:
            return cls(texts, rows, column, place)
        stripped = compute.utf8_trim_whitespace(texts)
        if not stripped.equals(texts):
            coded = stripped.dictionary_encode()
            texts, (_, first) = coded.dictionary, np.unique(coded.indices, return_index=True)
            rows = np.bincount(coded.indices, rows, len(texts)).astype(np.int64)
            place = first
        return cls(texts, rows, column, place).without({"", *NO_VALUE})

    @property
    def total(self) -> int:
        """Rows of all texts."""
        return int(self.rows.sum())

    def without(self, texts: Collection[str]) -> _Counted:
        """Leave out some texts."""
        left = ~self.among(texts)
        if left.all():
            return self
        texts = self.texts.filter(pa.array(left))
        return _Counted(texts, self.rows[left], self.column, self.place[left])

    def among(self, some: Collection[str]) -> NDArray[np.bool_]:
        """Whether each text is one of some."""
        if self.column.are_plain:  # then no spaces were left out
            return self.column.among(some)[self.place]
        return are_among(self.texts, some)

    def numbers(self, dialect: Dialect) -> NDArray[np.float64]:
        """Return the number that each text is, NaN of none."""
        return self.column.numbers(dialect)[self.place]

    def several(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that more rows than one have."""
        which = self.among(texts) & (self.rows > 1)
        return as_list(self.texts.filter(pa.array(which))) if which.any() else []

    @property
    def are_marked(self) -> bool:
        """Whether several rows have a mark as of decimals or thousands."""
        return bool(self.rows[self.have(",.")].sum() > 1)

    def have(self, marks: str, times: int = 1) -> NDArray[np.bool_]:
        """Whether each text has one of these marks, so many times."""
        return np.asarray(np.any([have(self.texts, mark, times) for mark in marks], axis=0))


def _as_column(texts: Iterable[str | None]) -> TextColumn:
    # half of a pair of surrogates is spelt out: Arrow holds none
    spelt = [(text or "").encode(errors="backslashreplace").decode() for text in texts]
    return TextColumn(*coded([pa.array(spelt, pa.string())]))


def in_words(dialect: Dialect) -> Iterator[str]:
    """Say what of a dialect is unlike the default, a phrase each."""
    overrides = dialect.overrides
    names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    if "delimiter" in overrides:
        yield f"fields between {names[dialect.delimiter]}"
    if "encoding" in overrides:
        yield f"text in {dialect.encoding}"
    if "decimal" in overrides:
        yield "decimal commas"
    if "dates" in overrides:
        yield f"dates {dialect.dates}"
    if "line_end" in overrides:
        yield "lines that end in LF, though the header ends in CR LF"
    if more := [text for text in dialect.missing if text not in NO_VALUE]:
        yield f"missing also as {', '.join(map(repr, more))}"
    for name, held in dialect.sentinels.items():
        yield f"missing in {name} as {', '.join(held)}"


def signs_in(column: Column, dialect: Dialect) -> list[str]:
    """Return the signs of currency and percent beside the numbers of a public column."""
    if isinstance(column, np.ndarray):
        return []
    texts = {text for text in column if isinstance(text, str) and _SIGN.search(text)}
    numbers = (text for text in texts if dialect.number(text) == dialect.number(text))
    return sorted({sign for text in numbers for sign in _SIGN.findall(text)})


def _encoding(content: bytes, usual: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if content.isascii():
        return usual
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        if re.search(rb"[\x80-\x9f]", content):
            return "cp1252"
        return usual if usual in _ALIKE else "latin-1"
    return "utf-8"


def _delimiter(lines: Sequence[str]) -> str | None:
    """Return the delimiter by which most lines have as many fields as the header, two or more."""

    def fits(delimiter: str) -> tuple[float, int]:
        rows = Dialect(delimiter).rows

        def width(line: str) -> int:
            return len(*rows([line])) if '"' in line else line.count(delimiter) + 1

        there = list(filter(None, lines))
        if not there or (usual := width(there[0])) < 2:
            return 0.0, 0
        return sum(width(line) == usual for line in there) / len(there), usual

    found = {delimiter: fits(delimiter) for delimiter in DELIMITERS}
    best = max(found, key=found.__getitem__)
    return best if found[best][1] else None


def _first_lines(text: str) -> list[str]:
    """Return the header and the lines that are looked at, without cutting all others."""
    size = _FIRST
    while size < len(text) and len(lines := text[:size].splitlines()) <= _LINES + 1:
        size *= 2 + _LINES // len(lines)
    return (lines if size < len(text) else text.splitlines())[: _LINES + 1]


def _mostly(numbers: NDArray[np.float64]) -> bool:
    """Whether most of what was read are numbers."""
    return int(np.count_nonzero(numbers == numbers)) > _MOST * len(numbers)


def _decimal(columns: Sequence[_Counted], usual: str) -> str:
    """Return the mark with which more columns are numbers; the usual one makes no difference."""
    as_usual = Dialect(decimal=usual)
    fits = [_mostly(one.numbers(as_usual)) for one in columns]
    if not any(one.are_marked for one, fit in zip(columns, fits, strict=True) if not fit):
        return usual
    other = Dialect(decimal="," if usual == "." else ".")
    marked = [(one, fit) for one, fit in zip(columns, fits, strict=True) if one.are_marked]
    of_other = sum(_mostly(numbers_of(one.texts, other)) for one, _ in marked)
    return other.decimal if of_other > sum(fit for _, fit in marked) else usual


def _dates(columns: Sequence[_Counted], many: bool) -> str | None:
    """Return the order of day and month that the dates show, or else their separator suggests."""
    shown: Counter[str] = Counter()
    for column in columns:
        if column.column.are_plain:
            continue
        most, which = _MOST * column.total, column.have("./-", 2)
        if column.rows[which].sum() <= most:
            continue
        texts = as_list(column.texts.filter(pa.array(which)))
        rows_of_texts = zip(texts, column.rows[which].tolist(), strict=True)
        found = [(match, rows) for text, rows in rows_of_texts if (match := _DATE.fullmatch(text))]
        total = sum(rows for _, rows in found)
        if total <= most:
            continue
        first, second = (
            sum(rows for match, rows in found if int(match[place]) > 12) for place in (1, 3)
        )
        slashes = sum(rows for match, rows in found if match[2] == "/")
        alike = abs(first - second) <= many
        if 2 * slashes < total if alike else first > second:
            shown["day-first"] += 1
        else:
            shown["month-first"] += 1
    return shown.most_common(1)[0][0] if shown else None


def _sentinels(
    columns: Mapping[str, _Counted], dialect: Dialect, many: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield columns of numbers, and how one that is the only negative one, or far off, is spelt."""
    for name, column in columns.items():
        read, total = column.numbers(dialect), column.total
        if not np.isin(read, _SENTINELS).any():
            continue
        numbers, place = np.unique(read[read == read], return_inverse=True)
        rows = np.bincount(place, column.rows[read == read])
        if total < _FEW or (rows.sum() <= _MOST * total and not _mostly(read)):
            continue
        often = rows > many
        known = numbers[often] if rows[often].sum() > _MOST * total else numbers
        for odd in numbers[np.isin(numbers, _SENTINELS)].tolist():
            spelt = (read == odd) & (column.rows > many)
            others = known[known != odd]
            if len(others) > _FEW:  # of many, one at either end may be odd itself
                others = others[1:-1]
            low, high = (others[0], others[-1]) if len(others) else (0.0, 0.0)
            alone = odd < 0 <= low and high > 1
            away = min(abs(odd - low), abs(odd - high)) > high - low and not low < odd < high
            if column.rows[spelt].sum() > 1 and (alone or (away and len(others) > 2)):
                yield name, tuple(as_list(column.texts.filter(pa.array(spelt))))
                break
