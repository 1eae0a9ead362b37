"""Dialects of text files: delimiter, encoding, numbers, dates, and texts for missing values.

A dialect is public. It is told, and part of the table that it is told with: nodes never guess, as a
guess that depended on a record would leak it.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, time
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.table.records import Column, as_number, as_text, number_of, numbers_in, text_of
from flwr_kld.table.times import local_time, times_in

NO_VALUE = (
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What pandas takes for missing."""
DELIMITERS = (",", ";", "\t", "|")
_BINARY = re.compile("[\0-\x08\x0e-\x1f\ufffd]")
"""What no text has, and files of other kinds and encodings have at their beginning."""
_MONTHS = {
    name: number
    for names in (
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jän feb mär apr mai jun jul aug sep okt nov dez",
        "jan fév mar avr mai juin juil aoû sep oct nov déc",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
    )
    for number, name in enumerate(names.split(), 1)
}
"""How the names of months begin, in seven languages: none means another month in another one."""
_CLOCK = r"(?:(?:T|,?\s+)(\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s*([AaPp][Mm])?)?"
_NUMERIC_DATE = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}}|\d\d){_CLOCK}")
_YEAR_FIRST = re.compile(rf"(\d{{4}})([./-])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}")
_YEAR_MONTH = re.compile(r"(\d{4})-(\d\d)")
_NAMED_DATES = (
    re.compile(
        rf"(?P<day>\d{{1,2}})[./ -]+(?P<month>[^\W\d_]{{3,10}})[./ -]+(?P<year>\d{{4}}|\d\d)"
        rf"{_CLOCK}"
    ),
    re.compile(rf"(?P<month>[^\W\d_]{{3,10}})\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_CLOCK}"),
)
_SPAN = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<days>\d+) days?,? \+?(?P<h>\d\d?):(?P<m>\d\d):(?P<s>\d\d(?:\.\d+)?)"
    r"|P(?:(?P<D>\d+)D)?(?:T(?=\d)(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+(?:\.\d+)?)S)?)?)"
)
"""A duration, as pandas and ISO 8601 write it."""
_UNITS = (86_400, 3_600, 60, 1)
"""Seconds of a day, an hour, a minute and a second."""
LONGEST = 64
"""Characters of a number or a date: a longer text could take a reader hours, which would leak."""
_MONEY = "[$€£¥]"
_PACKED = {".gz": "gzip", ".zst": "zstd"}
FILES = ".csv or .tsv, also as .gz or .zst, .parquet or a folder of such"
"""Endings of the files that are read."""


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Parameters
    ----------
    delimiter : str
        Between the fields of a line: ``,``, ``;``, a tab, or ``|``.
    encoding : str
        UTF-8, UTF-16, or one of a byte a character, such as latin-1 or cp1252.
    decimal : "." or ","
        Mark before the decimals of a number. The other one, a space or an apostrophe may stand
        between its thousands, and a currency sign or ``%`` around it.
    dates : "iso", "day-first" or "month-first"
        How to read 01/02/2015. Dates in ISO 8601, and with a month's name, are read always.
    missing : Sequence of str
        Texts that stand for no value, beside the empty one. By default NA, NULL, None, nan and so
        on, as pandas has it. A text that a column lists as a label is that label.
    sentinels : Mapping of str to Sequence of str
        Further ones of a column, such as ``{"income": ["-999"]}``; numbers and times by their
        value, in whatever type or spelling they come.
    line_end : "header" or "lf"
        What ends a line: what ends the header line, or LF whether or not a CR is before it, as in a
        file whose header ends in CR LF and whose rows end in LF.

    Raises
    ------
    DomainError
        If one is none of these.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    dates: str = "iso"
    missing: Sequence[str] = NO_VALUE
    sentinels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    line_end: str = "header"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("delimiter", self.delimiter, DELIMITERS),
            ("decimal", self.decimal, (".", ",")),
            ("dates", self.dates, ("iso", "day-first", "month-first")),
            ("line_end", self.line_end, ("header", "lf")),
        ):
            if value not in known:
                raise DomainError(f"{name} is one of {', '.join(map(repr, known))}, not {value!r}")
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        object.__setattr__(self, "missing", _texts("missing", self.missing))
        if not isinstance(self.sentinels, Mapping):
            raise DomainError("sentinels= is a mapping of columns to lists of texts")
        own = {str(name): _texts("sentinels", held) for name, held in self.sentinels.items()}
        object.__setattr__(self, "sentinels", own)

    @classmethod
    def from_fields(cls, overrides: Any) -> Self:
        """Build it from what differs from the default, as `overrides` gives it."""
        if not isinstance(overrides, Mapping) or set(overrides) - {f.name for f in fields(cls)}:
            raise DomainError("a dialect is a mapping of what differs from the default")
        return cls(**overrides)

    @property
    def overrides(self) -> dict[str, Any]:
        """What differs from the default, JSON-able."""
        usual = asdict(Dialect())
        own = {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(self).items()}
        own["sentinels"] = {name: list(held) for name, held in self.sentinels.items()}
        usual["missing"] = list(NO_VALUE)
        return {name: value for name, value in own.items() if value != usual[name]}

    def plain(self, column: Column, name: str, reads: str, kept: Sequence[str] = ()) -> Column:
        """Write a column's texts as they are spelt elsewhere: each by itself, none by another.

        What is no text stays, but for sentinels; `kept` are values in any case, as they are.
        """
        if isinstance(column, np.ndarray) and name not in self.sentinels:
            return column
        values = self.sentinel_values(name, reads, kept)
        if isinstance(column, np.ndarray):
            if not len(values) or column.dtype.kind not in "biufM":
                return column
            held = times_in(column) if reads == "time" else numbers_in(column)
            gone_here = np.isin(held, values)
            return np.ma.masked_array(column, gone_here | np.ma.getmaskarray(column))
        listed = frozenset(kept)
        gone = {"", *self.missing, *self.sentinels.get(name, ())}
        spells: dict[str, Callable[[str], Any]] = {
            "number": self.number, "time": self.time, "text": self._text,
        }  # fmt: skip
        spell = spells.get(reads, str)
        value_of: Callable[[Any], Any] = local_time if reads == "time" else as_number
        nothing, known = frozenset(values.tolist()), dict[str, Any]()
        of_text = {kind for kind in set(map(type, column)) if issubclass(kind, str | bytes)}
        if not of_text and not nothing:
            return column

        def plain(value: Any) -> Any:
            if type(value) not in of_text:
                return None if nothing and value_of(value) in nothing else value
            text = value if type(value) is str else as_text(value) or ""
            if text not in known:
                spelt = text if text in listed else None if text in gone else spell(text)
                by_value = nothing and reads in ("number", "time") and value_of(spelt) in nothing
                known[text] = None if by_value else spelt
            return known[text]

        return [plain(value) for value in column]

    def _text(self, text: str) -> str:
        """Return a text; of a number with another decimal mark than a point, as it has that."""
        if self.decimal == "." or self.decimal not in text:
            return text
        number = self.number(text)
        return text if math.isnan(number) else text_of(number) or text

    def sentinel_values(self, name: str, reads: str, kept: Sequence[str] = ()) -> NDArray[Any]:
        """Return a column's sentinels as the numbers or times that they are."""
        texts = [text for text in self.sentinels.get(name, ()) if text not in kept]
        if reads == "time":
            times = times_in([self.time(text) for text in texts])
            return times[~np.isnat(times)]
        numbers = np.array([self.number(text) for text in texts], dtype=np.float64)
        return numbers[~np.isnan(numbers)]

    def number(self, text: str) -> float:
        """Return the number that a text spells, NaN if it is none."""
        if self.decimal == ".":
            plain = number_of(text)
            if plain == plain:
                return plain
        text = text.strip().replace("\u2212", "-")
        if len(text) > LONGEST:
            return math.nan
        if text[:1] == "(" and text[-1:] == ")" and text[1:2] != "(":  # as accounts have it
            return -abs(self.number(text[1:-1]))
        found = self._number.fullmatch(text)
        if found is None:
            if span := _SPAN.fullmatch(text):
                return _seconds_of(span)
            return number_of(text) if text.isalpha() else math.nan  # true, false
        whole = "".join(filter(str.isdecimal, found["whole"]))
        decimals, exponent = found["decimals"] or "0", found["exponent"] or ""
        return float(f"{found['sign']}{whole or 0}.{decimals}{exponent}")

    @cached_property
    def _number(self) -> re.Pattern[str]:
        mark, other = re.escape(self.decimal), "," if self.decimal == "." else "."
        grouped = rf"[0-9]{{1,3}}(?P<gap>[{other}'’ \u00a0\u202f])[0-9]{{3}}(?:(?P=gap)[0-9]{{3}})*"
        return re.compile(
            rf"{_MONEY}?\s*(?P<sign>[+-]?)\s*{_MONEY}?\s*(?=[0-9{mark}]*[0-9])"
            rf"(?P<whole>{grouped}|[0-9]*)(?:{mark}(?P<decimals>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]+)?"
            rf"\s*(?:%|{_MONEY}|EUR|USD|GBP|CHF)?"
        )

    def time(self, text: str) -> str:
        """Return a date or time in ISO 8601; the text itself if it is none, or is in it."""
        text = text.strip()
        if len(text) > LONGEST or (text[4:5] == text[7:8] == "-" and _is_time(text)):
            return text
        if found := _YEAR_FIRST.fullmatch(text):
            year, _, month, day, *clock = found.groups()
        elif (found := _NUMERIC_DATE.fullmatch(text)) and self.dates != "iso":
            day, _, month, year, *clock = found.groups()
            if self.dates == "month-first":
                day, month = month, day
        elif found := _YEAR_MONTH.fullmatch(text):
            year, month, day, clock = *found.groups(), "1", []
        elif found := next(filter(None, (form.fullmatch(text) for form in _NAMED_DATES)), None):
            day, name, year = found["day"], found["month"].lower(), found["year"]
            number = _MONTHS.get(name[:3]) or _MONTHS.get(name[:4], 0)
            month, clock = str(number), list(found.groups()[3:])
        else:
            return text
        years = int(year) + (0 if len(year) == 4 else 2000 if int(year) < 70 else 1900)
        try:
            return datetime(years, int(month), int(day), *_clock(*clock)).isoformat()
        except ValueError:
            return text

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the fields of each line by itself: a quote ends with it; none if it is blank.

        A record is a line, whatever is in it, so that no value changes the number of records or
        where another begins. Proof: docs/proofs/records.md.
        """
        usual = csv.field_size_limit(sys.maxsize)
        try:
            for line in lines:
                if '"' in line or "\r" in line or "\n" in line:
                    plain = line.rstrip("\r\n").replace("\r", " ").replace("\n", " ")
                    yield next(csv.reader([plain], delimiter=self.delimiter))
                else:
                    yield line.split(self.delimiter) if line else []
        finally:
            csv.field_size_limit(usual)

    def names(self, header: str) -> list[str]:
        """Read the header, which is public: other kinds of files are recognised by it."""
        if not header:
            raise DomainError(
                "it is empty, or its first line is: write a header of column names there"
            )
        if header.startswith(("sep=", "#")):
            raise DomainError(
                f"its first line, {header[:40]!r}, is not a header of column names: delete it"
            )
        try:
            if _BINARY.search(header):
                raise ValueError
            (names,) = csv.reader([header], strict=True, delimiter=self.delimiter)
        except (ValueError, csv.Error):
            raise DomainError(
                f"its first line is not a header of column names in {self.encoding}, with each "
                "quote closed: convert or decompress the file, or name its encoding"
            ) from None
        return distinct(names)


def is_text_file(file: str | Path) -> bool:
    """Whether a file is one of text by its name, which may say that it is compressed."""
    suffixes = Path(str(file).lower()).suffixes
    if suffixes[-1:] and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1:] in ([".csv"], [".tsv"])


@contextmanager
def opened(file: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read, decompressed if its name ends in .gz or .zst."""
    suffix = Path(file).suffix.lower()
    with open(file, "rb") as stream:
        if suffix not in _PACKED:
            yield stream
            return
        from pyarrow import CompressedInputStream

        try:
            yield CompressedInputStream(stream, _PACKED[suffix])
        except OSError:
            raise DomainError(
                f"it is not a whole {suffix} file, as its name says: rename it, or write it anew"
            ) from None


def distinct(names: list[str]) -> list[str]:
    """Return the names of columns; refuse two that are the same."""
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise DomainError(f"two columns have the name {twice[0]!r}: rename one")
    return names


def _encoding(name: Any) -> str:
    """Return an encoding's usual name; refuse one in which a character may swallow a line's end."""
    try:
        usual = codecs.lookup(name).name.removesuffix("-sig")
        total = usual in ("utf-8", "utf-16", "utf-16-le", "utf-16-be") or (
            len(bytes(range(256)).decode(usual, "replace")) == 256
            and bytes(range(128)).decode(usual) == bytes(range(128)).decode("ascii")
        )
    except (TypeError, ValueError, LookupError):
        total = False
    if not total:
        raise DomainError(
            f"encoding is utf-8, utf-16 or one of a byte a character, such as latin-1, not {name!r}"
        )
    return usual


def _texts(name: str, held: Any) -> tuple[str, ...]:
    if isinstance(held, str | set | frozenset) or not hasattr(held, "__iter__"):
        raise DomainError(f"{name}= is a list of texts")
    texts = tuple(held)
    if not all(isinstance(text, str) for text in texts):
        raise DomainError(f"{name}= is a list of texts")
    return texts


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "-" in text  # what is digits alone may be a number


def _seconds_of(span: re.Match[str]) -> float:
    """Return the seconds of a duration; NaN of one without any."""
    parts = [
        (float(span[name]), unit)
        for name, unit in zip(("days", "h", "m", "s", *"DHMS"), _UNITS * 2, strict=True)
        if span[name] is not None
    ]
    seconds = math.fsum(number * unit for number, unit in parts) if parts else math.nan
    if span["days"] is None or span["sign"] != "-":
        return -seconds if span["sign"] == "-" else seconds
    days = parts[0][0] * _UNITS[0]
    return seconds - 2 * days  # "-1 days +23:00:00" is an hour before 0


def _clock(clock: str | None = None, half: str | None = None) -> tuple[int, int, int, int]:
    """Return hour, minute, second and microsecond of the text after a date."""
    if clock is None:
        return 0, 0, 0, 0
    at = time.fromisoformat(clock if clock[2] == ":" else f"0{clock}")
    hour = at.hour
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    return hour, at.minute, at.second, at.microsecond
