"""Detects the dialect of a public text file. Nodes never do: their dialect is configured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flwr_kld.table.dialect import DELIMITERS, NO_VALUE, Dialect, opened
from flwr_kld.table.records import Column, numbers_in, text_of

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
    usual = usual or Dialect()
    with opened(file) as stream:
        content = stream.read()
    encoding = _encoding(content, usual.encoding)
    text = content.decode(encoding, "replace").removeprefix("\ufeff")
    lines = _first_lines(text)
    delimiter = _delimiter(lines) or usual.delimiter
    mixed = text.partition("\n")[0].endswith("\r") and text.count("\n") > 2 * text.count("\r\n")
    line_end = "lf" if mixed else usual.line_end
    dialect = Dialect(delimiter, encoding, usual.decimal, usual.dates, line_end=line_end)
    rows = [row for row in dialect.rows(lines) if row]
    width = len(rows[0]) if rows else 0
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    return recognise({name: column for name, *column in columns}, dialect)


def recognise(columns: Mapping[str, Column], dialect: Dialect) -> Dialect:
    """Propose how numbers, dates and missing values are spelt in public columns."""
    nothing = frozenset(NO_VALUE)
    held = {
        name: _stripped(column, nothing)
        for name, column in columns.items()
        if not isinstance(column, np.ndarray)
        and all(issubclass(kind, str | type(None)) for kind in set(map(type, column)))
    }
    every = {
        name: held[name] if name in held else _numbers_in(column)
        for name, column in columns.items()
    }
    many = max(map(len, columns.values()), default=0) >= _MANY
    texts = [column for column in held.values() if column.total() > many]
    spelt = {text for column in texts for text in SPELLINGS if column[text] > 1}
    missing = (*NO_VALUE, *(text for text in SPELLINGS if text in spelt))
    for column in every.values():
        for text in nothing | spelt:
            del column[text]
    decimal, dates = _decimal(texts) or dialect.decimal, _dates(texts, many) or dialect.dates
    dialect = replace(dialect, missing=missing, decimal=decimal, dates=dates)
    return replace(dialect, sentinels=dict(_sentinels(every, dialect, many)))


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
        widths = [len(row) for row in Dialect(delimiter).rows(lines) if row]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    best = max(DELIMITERS, key=fits)
    return best if fits(best)[1] else None


def _first_lines(text: str) -> list[str]:
    """Return the header and the lines that are looked at, without cutting all others."""
    size = _FIRST
    while size < len(text) and len(lines := text[:size].splitlines()) <= _LINES + 1:
        size *= 4
    return (lines if size < len(text) else text.splitlines())[: _LINES + 1]


def _stripped(column: Sequence[str | None], nothing: Collection[str]) -> Counter[str]:
    """Count a column's texts, without the spaces around them."""
    found: Counter[str] = Counter()
    for text, rows in Counter(column).items():
        if text and (own := text.strip()) not in nothing:
            found[own] += rows
    return found


def _numbers_of(texts: Collection[str], dialect: Dialect) -> NDArray[np.float64]:
    """Return the numbers that different texts spell, NaN of none."""
    from pyarrow import array, string

    from flwr_kld.table.texts import numbers_of

    try:
        return numbers_of(array(texts, string()), dialect)
    except UnicodeEncodeError:  # half of a pair of surrogates, of which Arrow holds none
        return np.array([dialect.number(text) for text in texts], dtype=np.float64)


def _mostly(numbers: NDArray[np.float64]) -> bool:
    """Whether most of what was read are numbers."""
    return int(np.count_nonzero(numbers == numbers)) > _MOST * len(numbers)


def _decimal(columns: Sequence[Counter[str]]) -> str | None:
    """Return the mark with which more columns are numbers; None if it makes no difference."""

    def is_marked(column: Counter[str]) -> bool:
        return sum(rows for text, rows in column.items() if "," in text or "." in text) > 1

    marked = [list(column) for column in columns if is_marked(column)]

    def numbers(mark: str) -> int:
        by_mark = Dialect(decimal=mark)
        return sum(_mostly(_numbers_of(column, by_mark)) for column in marked)

    points, commas = numbers("."), numbers(",")
    return None if points == commas else "," if commas > points else "."


def _dates(columns: Sequence[Counter[str]], many: bool) -> str | None:
    """Return the order of day and month that the dates show, or else their separator suggests."""
    shown: Counter[str] = Counter()
    for column in columns:
        found = [(match, rows) for text, rows in column.items() if (match := _DATE.fullmatch(text))]
        total = sum(rows for _, rows in found)
        if total <= _MOST * column.total():
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
    columns: Mapping[str, Counter[str]], dialect: Dialect, many: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield columns of numbers, and how one that is the only negative one, or far off, is spelt."""
    for name, times in columns.items():
        read, total = _numbers_of([*times], dialect), times.total()
        if not np.isin(read, _SENTINELS).any():
            continue
        spelt = dict(zip(times, read.tolist(), strict=True))
        numbers: Counter[float] = Counter()
        for text, number in spelt.items():
            if number == number:
                numbers[number] += times[text]
        if total < _FEW or (numbers.total() <= _MOST * total and not _mostly(read)):
            continue
        often = {number for number, rows in numbers.items() if rows > many}
        known = often if sum(numbers[number] for number in often) > _MOST * total else set(numbers)
        for odd in sorted(numbers.keys() & _SENTINELS):
            texts = tuple(t for t, number in spelt.items() if number == odd and times[t] > many)
            others = sorted(known - {odd})
            if len(others) > _FEW:  # of many, one at either end may be odd itself
                others = others[1:-1]
            low, high = min(others, default=0.0), max(others, default=0.0)
            alone = odd < 0 <= low and high > 1
            away = min(abs(odd - low), abs(odd - high)) > high - low and not low < odd < high
            if sum(times[text] for text in texts) > 1 and (alone or (away and len(others) > 2)):
                yield name, texts
                break


def _numbers_in(column: Column) -> Counter[str]:
    """Count the numbers of a column as texts."""
    numbers = numbers_in(column)
    different, times = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    texts = [text_of(number) or "" for number in different.tolist()]
    return Counter(dict(zip(texts, times.tolist(), strict=True)))
