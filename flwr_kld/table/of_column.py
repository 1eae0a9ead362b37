"""Domains for one column of public data, or the reasons why it gets none.

The rules are those by which a person would read a column, in order: is it empty, is it constant,
are its values true or false, numbers, dates, times of day, or texts? A column is what nearly all of
its values are, and a value that is odd is a label of its own if it is frequent, else missing; what
is seen once among many rows decides nothing. Of numbers, the name says first whether they are
identifiers or a calendar's.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flwr_kld.table.base import Domain
from flwr_kld.table.binned import FARTHEST, Binned, quantile_cuts, quantiles_of
from flwr_kld.table.codes import Codes
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.frame import TextColumn
from flwr_kld.table.labels import Labels, are_truth_values
from flwr_kld.table.records import (
    Column,
    as_number,
    as_text,
    is_missing,
    masked_in,
    number_of,
    text_of,
    values_in,
)
from flwr_kld.table.texts import are_alphabetic, are_codes, as_list, times_of
from flwr_kld.table.times import EPOCH, FINER_EPOCHS, Times, day_time, local_time

_ENOUGH = 100
"""Rows from which on what all of them have in common says something, and one alone nothing.
Doubled, columns of 100 to 200 rows keep what occurs once as a label, and lose their constants."""
_NEARLY = 0.95
"""Share of a column's rows that says what the column is. 0.98 instead: one field in thirty that was
typed wrongly makes texts of numbers."""
_STRAY = 0.001
"""Share of the rows that may be odd in a constant, each once. Doubled, rare amounts among zeros are
not told apart."""
_STRAYS = 3
"""So many may be odd in a constant, or beside a few numbers, of any length. At 1, a second one
makes a constant none."""
_PRESENT = 20
"""Values from which on a column of many rows is read: of fewer, one alone is more than 5 %."""
_FREQUENT = 0.01
"""Share of the rows from which on a text has a name among many, or beside numbers. Doubled, the
answer 'unknown' of one in seventy is missing instead of a label."""
_OFTEN = 5
"""Rows that a text beside numbers has at least, to be a label. Doubled, fewer in small tables."""
_REPEATED = 5
"""Rows for each different number, from which on each number has a cell of its own. Doubled, unseen
codes of small tables are in a neighbour's bin."""
_FROM_1, _IN_A_ROW = 9, 5
"""Numbers in a row, from 1 and from elsewhere, that are codes or levels. Doubled, ages of pupils
and goals of a match are labels."""
_SUBJECT = 10
"""Rows for each different number of a column whose name ends in 'id', from which on it is no
identifier. Doubled, shops of fifteen sales each are left out."""
_ONWARD = 0.98
"""Rows, and steps, that go one way in a counter or log. At 1, one odd value hides one."""
_FEW = 10
"""Rows up to which texts that are all different are labels."""
_DENSE = 10
"""Of identifiers that are numbered, so many numbers at most for each row. Doubled, amounts of a
narrow range are taken for identifiers more often."""
_EXACT = 2.0**53
"""Whole numbers above this are not told apart by float64."""
_HALF = 0.5
"""Share of the rows from which on a number has a bin of its own, and the others have quantiles of
their own. At 1, what changes among the others of a column of zeros does not show."""
_APART = 1e-6
"""Width of the bin of a number that most rows have, in units of its distance to the next one."""
_DIGITS = 6
"""Decimals of a number that has a cell. Doubled, cells are narrower than rounding errors."""
_LISTED = 0.9
"""Rows that labels, or prefixes, are to cover: of fewer, the rest is told apart as well."""
_BUCKETS = 16
"""Of codes without a name: each holds about 1 % of the rows or more."""
_SENTENCE = 30
"""Characters; texts that are longer on average are no names, or twice as long if they repeat."""
_CODE = re.compile(r"(?=[^\d]*\d)\S{1,16}")
"""A text whose beginning may say what kind of thing it is: one word with a digit."""
_LONGEST_PREFIX = 5
"""Characters of a code that may count."""
_CALENDAR = {
    (0, 2200): "year",
    (1, 12): "month",
    (1, 53): "week weeknumber",
    (1, 366): "day dayofmonth dayofyear",
    (1, 4): "quarter",
}
"""Names of columns that a calendar fills, and between which numbers."""
_NUMBERED = re.compile(
    "(?!(?:(?:pre|un)?paid|[ab]id|grid|acid|covid|fluid|humid|solid|valid)$)"
    ".*(?:id|fips)|code|zip|phone"
)
"""Words in the names of columns whose numbers are identifiers or codes, and others that end so."""
_LAST_NUMBERED = {"nr", "number"}
"""What such a name of several words ends in."""
_TIMED = {"time", "date", "timestamp", "created"}
"""Words in the names of columns of times."""
_SINCE_1970 = {1: "seconds", 1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_RECENT = 12 * 365.25 * 86_400
"""Seconds before now, in which numbers without such a name are times. Doubled, volumes are, too."""
_YEAR = 366 * 86_400
"""Seconds from now on, in which a time may lie."""
_LEAST_TIME = 1e7
"""Number from which on `Times` reads one as a time: 20240131 is a date."""
_FIRST = np.datetime64("1900-01-01")
"""Of dates such as 20240131."""
_FINEST = 1e9
"""Ticks of a second from which on times are round in 1,000 of them, and identifiers are not."""
_DAY = np.timedelta64(1, "D")
_SEASONS = 300 * _DAY
"""Span from which on dates show the seasons of a year. At half of it, rows of the next season are
new to the reference, and drift by themselves."""
_WEEKS = 14 * _DAY
"""Dates from which on weekdays have a law: of fewer than seven days one is missing, and of ten,
whose numbers of records vary by 30 %, weekdays lie .08 nats from those of a year; of 14, .02."""

_NO_KIND = "it holds neither numbers nor texts, times or truth values alone"

Found = Domain | str
"""A domain, or the reason why there is none."""
Features = dict[str, tuple[Found, str]]
"""What is found for each feature of a column, and what the column is taken for, in words."""


def features_of_column(
    name: str, values: Column, dialect: Dialect, *, bins: int, labels: int, wanted: bool
) -> Features:
    """Choose domains for public values, by name: of times several, else one of the column's name.

    Instead of a domain comes the reason why there is none; a column that is wanted gets one even if
    it is a counter, an identifier, a free text or alike in few rows.
    """
    seen = _Seen.of(values, dialect, name)
    if seen.there < (_PRESENT if seen.many else 1):
        if not (wanted or seen.many):
            return {name: ("it has no values, in few rows", "")}
        words = f"nearly empty, {seen.there} of {seen.rows:,} rows" if seen.there else "empty"
        return {name: (Labels([]), words)}
    spelt = not np.isfinite(seen.numbers[seen.common]).any()
    if spelt and seen.nearly(seen.common) and are_truth_values(seen.those(seen.common)):
        return {name: (Labels(["False", "True"]), "truth values")}
    numbers = np.isfinite(seen.numbers) & ~seen.codes
    are_numbers = seen.nearly(numbers)
    each = seen.each(numbers) if are_numbers else np.array([])
    if are_numbers and not wanted and (reason := _calendar(name, each, seen.many)):
        return {name: (reason, "")}
    if seen.is_constant:
        return {name: _constant(seen, wanted)}
    if are_numbers:
        return _of_numbers(name, seen, numbers, each, bins, labels, wanted)
    times = seen.read(dialect, local_time)
    times[np.isfinite(seen.numbers)] = "NaT"  # of which some spell times, such as 0171…
    if seen.nearly(~np.isnat(times)):
        return _of_times(name, seen, times, ~np.isnat(times), bins, wanted)
    if seen.nearly(~np.isnat(seen.read(dialect, day_time))):
        return {name: (Times("hour"), "times of day")}
    if not seen.nearly(seen.written):
        return {name: (_NO_KIND, "")}
    return {name: _of_texts(seen, labels, wanted)}


@dataclass(frozen=True)
class _Seen:
    """A column's values: each different one that is there, and where it is."""

    held: list[Any] | pa.Array  # The different ones; an array of texts alone
    numbers: NDArray[np.float64]  # What they count, NaN if nothing; shape [values]
    codes: NDArray[np.bool_]  # Whether it is a text such as '007', as no number is written
    place: NDArray[np.intp]  # Which of them it is in each row that has one; shape [rows there]
    rows: int  # All rows

    @classmethod
    def of(cls, column: Column | TextColumn, dialect: Dialect, name: str) -> _Seen:
        """Read public values, without those that stand for none."""
        if isinstance(column, TextColumn):
            return cls._of_texts(column, dialect, name)
        column = dialect.plain(column, name, "as written")
        gone = masked_in(column)
        if isinstance(column, np.ndarray) and column.dtype.kind in "biufM":
            held = np.ma.getdata(column)
            held = held[~gone & (held == held)]
            different, place = np.unique(held, return_inverse=True)
            values = list(different) if held.dtype.kind == "M" else different.tolist()
        else:
            known: dict[Any, int] = {}
            values, places = [], []
            for value, is_gone in zip(values_in(column), gone.tolist(), strict=True):
                if is_gone or (type(value) is not str and is_missing(value)):
                    continue
                key = value if type(value) is str else _key(value)
                if key not in known:
                    known[key] = len(values)
                    values.append(value)
                places.append(known[key])
            place = np.array(places, dtype=np.intp)
        numbers = np.array([_number(value, dialect) for value in values], dtype=np.float64)
        codes = np.array(list(map(_is_code, values)), dtype=bool)
        return cls(values, numbers, codes, place, len(column))

    @classmethod
    def _of_texts(cls, column: TextColumn, dialect: Dialect, name: str) -> _Seen:
        """Read a column of a text file, each different text once."""
        texts = column.different
        gone = {"", *dialect.missing, *dialect.sentinels.get(name, ())}
        there = ~column.among(gone)
        numbers, place = column.numbers(dialect).copy(), column.place.astype(np.intp)
        if not column.are_plain:
            truth = np.flatnonzero((numbers == 0) | (numbers == 1))  # or the numbers 0 and 1
            numbers[truth[are_alphabetic(texts.take(pa.array(truth)))]] = np.nan
        if not there.all():
            texts, numbers = texts.filter(pa.array(there)), numbers[there]
            place = (np.cumsum(there) - 1)[place[there[place]]]
        return cls(texts, numbers, are_codes(texts), place, len(column))

    @cached_property
    def values(self) -> list[Any]:
        """The different values."""
        return self.held if isinstance(self.held, list) else as_list(self.held)

    @cached_property
    def texts(self) -> list[str | None]:
        """How they are written; None of what is neither text nor number."""
        return [text_of(value) for value in self.values]

    @cached_property
    def written(self) -> NDArray[np.bool_]:
        """Which of them are texts or numbers."""
        if not isinstance(self.held, list):
            return np.ones(len(self.held), dtype=bool)
        return np.array([text is not None for text in self.texts], dtype=bool)

    @property
    def there(self) -> int:
        """Rows that have a value."""
        return len(self.place)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """Rows that have each value."""
        return np.bincount(self.place, minlength=len(self.numbers)).astype(np.int64)

    @property
    def many(self) -> bool:
        """Whether there are so many rows that one alone decides nothing."""
        return self.rows >= _ENOUGH

    @cached_property
    def common(self) -> NDArray[np.bool_]:
        """Which values decide something: among many rows, not those of one alone."""
        return self.times > (1 if self.many else 0)

    @property
    def is_constant(self) -> bool:
        """Whether all rows have one value, but for a few odd ones among many."""
        odd = self.there - self.times.max()
        strays = max(self.there * _STRAY, _STRAYS) if self.many else 0
        return bool(odd <= strays and np.count_nonzero(self.common) == 1)

    def nearly(self, which: NDArray[np.bool_]) -> bool:
        """Whether nearly all rows have these values, or nearly all values and half the rows do."""
        share = self.times[which].sum() / max(self.there, 1)
        of_values = np.count_nonzero(which) / max(len(self.numbers), 1)
        return bool(share >= _NEARLY or (of_values >= _NEARLY and share >= _HALF))

    def rows_of(self, which: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return which value it is in each row that has one of these."""
        return self.place[which[self.place]]

    def each(self, which: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the numbers of the rows that have these values, within what edges may be."""
        return self.numbers[self.rows_of(which)].clip(-FARTHEST, FARTHEST)

    def those(self, which: NDArray[np.bool_]) -> list[Any]:
        """Return these values."""
        if not isinstance(self.held, list):
            return as_list(self.held.filter(pa.array(which)))
        return [self.values[place] for place in np.flatnonzero(which).tolist()]

    def counted(self, which: NDArray[np.bool_]) -> Counter[str]:
        """Return the texts of these values, and the rows of each."""
        found: Counter[str] = Counter()
        texts = map(text_of, self.those(which))
        for text, rows in zip(texts, self.times[which].tolist(), strict=True):
            found[text or ""] += rows
        return found

    def read(
        self, dialect: Dialect, as_time: Callable[[Any], datetime | None]
    ) -> NDArray[np.datetime64]:
        """Return the time that each value is; NaT of none."""
        usual = None
        if as_time is local_time and not isinstance(self.held, list):
            usual = times_of(self.held)
        if usual is not None:
            return usual
        texts = map(as_text, self.values)
        spelt = (
            value if text is None else dialect.time(text)
            for value, text in zip(self.values, texts, strict=True)
        )
        return np.array([as_time(value) for value in spelt], dtype="M8[us]")


def _key(value: Any) -> Any:
    try:
        hash(value)
    except Exception:  # of a list, or of whatever somebody's type raises
        return id(value)
    return type(value), value


def _number(value: Any, dialect: Dialect) -> float:
    """Return the number that a public value is or spells; NaN of truth values and all else."""
    if isinstance(value, bool | np.bool_):
        return math.nan
    text = as_text(value)
    if text is None:
        return as_number(value)
    number = dialect.number(text)
    return math.nan if text.strip().isalpha() and math.isfinite(number) else number


def _is_code(value: Any) -> bool:
    """Whether a text is none that a number is written as, such as '007' or '01.30'."""
    return isinstance(value, str) and value[:1] == "0" and value[1:2].isdecimal()


def _words(name: str) -> list[str]:
    """Return the words of a column's name."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _calendar(name: str, numbers: NDArray[np.float64], many: bool) -> str | None:
    """Say so if numbers move on with the calendar, or from row to row, whatever the data are."""
    word = "".join(_words(name))
    for (first, last), known in _CALENDAR.items():
        if word not in known.split() or (numbers == np.floor(numbers)).mean() < _NEARLY:
            continue
        if ((numbers >= first) & (numbers <= last)).mean() >= _NEARLY:
            return "a calendar's numbers, which move on whatever the data do"
    for way, onward in (("rise", numbers), ("fall", -numbers)):
        if many and _go_on(onward, strictly=True):
            return f"its numbers {way} from each row to the next, as a counter's do"
    return None


def _go_on(numbers: NDArray[np.float64], *, strictly: bool) -> bool:
    """Whether numbers rise from row to row, but for some odd ones."""
    onward = np.greater if strictly else np.greater_equal
    if onward(numbers[1:], numbers[:-1]).mean() < _ONWARD:
        return False
    ends: list[float] = []  # the least last number of a rising sequence of each length
    for number in numbers.tolist():
        at = (bisect_left if strictly else bisect_right)(ends, number)
        ends[at : at + 1] = [number]
    return len(ends) >= _ONWARD * len(numbers)


def _constant(seen: _Seen, wanted: bool) -> tuple[Found, str]:
    """Take a column of one value for that value, so that it shows when it begins to vary."""
    if not wanted and not seen.many:
        return "it is constant, in few rows", ""
    most = int(seen.times.argmax())
    value, text = seen.values[most], seen.texts[most]
    if isinstance(value, date | np.datetime64):
        day = np.datetime64(local_time(value) or "NaT", "D")
        return Times([str(day), str(day + np.timedelta64(1, "D"))]), f"constant, {day}"
    if text is None:
        return _NO_KIND, ""
    if len(text) > _SENTENCE and not wanted:
        return _too_long({text: 1}), ""
    return Labels([text]), f"constant, {text!r}"


def _of_numbers(
    name: str,
    seen: _Seen,
    which: NDArray[np.bool_],
    numbers: NDArray[np.float64],
    bins: int,
    labels: int,
    wanted: bool,
) -> Features:
    """Choose for the numbers of rows: codes, identifiers, times, or amounts."""
    common = which & seen.common
    values, rows = np.unique(numbers, return_counts=True)
    ordered = np.repeat(values, rows)
    whole = bool((numbers == np.floor(numbers)).mean() >= _NEARLY)
    different = whole and np.count_nonzero(which) >= _NEARLY * len(numbers)
    few = np.unique(seen.numbers[common])
    strays = max(_FREQUENT * len(numbers), _STRAYS if seen.many else 0)
    mostly_few = len(numbers) - seen.times[common].sum() <= strays and len(few) > 0
    if mostly_few and few.tolist() == [0, 1]:
        return {name: (Labels(["0", "1"]), "0 or 1")}
    if whole and _is_numbered(name):
        each = len(numbers) / np.count_nonzero(which)
        if not wanted and (different or (_ends_in_id(name) and each < _SUBJECT)):
            return {name: ("its name says that it is an identifier", "")}
        found, words = _of_texts(seen, labels, wanted)
        return {name: (found, f"{words}, as its name says that they are codes")}
    if mostly_few and 1 < len(few) <= bins and len(numbers) >= _REPEATED * len(few):
        if abs(few).max() >= _EXACT:
            return {name: _of_texts(seen, labels, wanted)}
        if _are_levels(few):
            own, more = _labels_beside(seen, which)
            levels = [str(text_of(float(number))) for number in few]
            return {name: (Labels(levels + own), f"levels, {levels[0]} to {levels[-1]}{more}")}
        words = f"numbers, a cell for each of {len(few)} and for what lies between"
        return _beside_labels(name, seen, which, ordered, _cells(few), words)
    inner = _inner(values)
    dense = inner[-1] - inner[0] < _DENSE * len(numbers)
    if different and not wanted and len(numbers) >= _ENOUGH and dense:
        words = f"{len(values):,} different whole numbers in {len(numbers):,} rows"
        return {name: (f"{words}, close to each other: they look like identifiers", "")}
    if (numbers >= _LEAST_TIME).mean() >= _NEARLY and (
        read_as := _since(name, seen, which, ordered)
    ):
        times = seen.read(Dialect(), local_time)
        parts = _of_times(name, seen, times, which & ~np.isnat(times), bins, wanted)
        return {part: (own, f"read as {read_as}") for part, (own, _) in parts.items()}
    if whole and np.median(abs(values)) >= _EXACT:
        return {name: _of_texts(seen, labels, wanted)}
    most = int(rows.argmax())
    if rows[most] >= _HALF * len(numbers) and len(values) > 2:
        rest = ordered[ordered != values[most]]
        cuts = _cuts_beside(float(values[most]), rest, bins)
        words = f"numbers, {text_of(float(values[most]))} by itself and the rest in quantile bins"
    else:
        cuts = quantile_cuts(ordered, bins)
        words = "numbers, in quantile bins"
    return _beside_labels(name, seen, which, ordered, cuts, words)


def _beside_labels(
    name: str,
    seen: _Seen,
    which: NDArray[np.bool_],
    ordered: NDArray[np.float64],
    cuts: NDArray[np.float64],
    words: str,
) -> Features:
    """Cut numbers at these edges, and name the frequent ones of the texts beside them."""
    own, more = _labels_beside(seen, which)
    return {name: (Binned.cut(ordered, cuts, labels=own), words + more)}


def _labels_beside(seen: _Seen, which: NDArray[np.bool_]) -> tuple[list[str], str]:
    """Return the frequent ones of the texts beside numbers, and what is made of all, in words."""
    odd = {t: n for t, n in seen.counted(~which).items() if not math.isfinite(number_of(t))}
    least, words = max(_OFTEN, _FREQUENT * seen.there), ""
    own = sorted(text for text, rows in odd.items() if rows >= least and len(text) <= _SENTENCE)
    if own:
        words += f"; {', '.join(map(repr, own))} are labels of their own"
    if gone := sum(rows for text, rows in odd.items() if text not in own):
        words += f"; {gone:,} of {seen.there:,} values are no numbers, and missing"
    return own, words


def _is_numbered(name: str) -> bool:
    """Whether a column's name says that its numbers are identifiers or codes."""
    words = _words(name)
    last = len(words) > 1 and words[-1] in _LAST_NUMBERED
    return last or any(map(_NUMBERED.fullmatch, words))


def _ends_in_id(name: str) -> bool:
    return "".join(_words(name)).endswith("id")


def _are_levels(numbers: NDArray[np.float64]) -> bool:
    """Whether these are a few numbers in a row, or 1 to 9 at most, as codes and levels are."""
    in_a_row = bool((np.diff(numbers) == 1).all() and numbers[0] % 1 == 0)
    return in_a_row and len(numbers) <= (_FROM_1 if numbers[0] == 1 else _IN_A_ROW)


def _inner(ordered: NDArray[Any]) -> NDArray[Any]:
    """Return ordered values but for those at either end: one in a hundred, and one at least."""
    odd = max(len(ordered) // 100, 1) if len(ordered) >= _PRESENT else 0
    return ordered[odd : len(ordered) - odd]


def _since(
    name: str, seen: _Seen, which: NDArray[np.bool_], numbers: NDArray[np.float64]
) -> str | None:
    """Say as which times ordered numbers are likely to be meant; None if as none."""
    if np.median(numbers) < EPOCH:
        times = seen.read(Dialect(), local_time)[which]
        likely = (times >= _FIRST) & (times < np.datetime64(datetime.now(UTC).year + 2, "Y"))
        return "dates such as 20240131" if likely.mean() >= _NEARLY else None
    ticks = np.power(1e3, np.searchsorted(FINER_EPOCHS, numbers, side="right"))
    unit, now = float(np.median(ticks)), datetime.now(UTC).timestamp()
    if (ticks == unit).mean() < _NEARLY:
        return None
    seconds = numbers / unit
    named = not _TIMED.isdisjoint(_words(name))
    recent = ((seconds > now - _RECENT) & (seconds < now + _YEAR)).mean() >= _NEARLY
    past = (seconds < now + _YEAR).mean() >= _NEARLY
    inner = _inner(seconds)
    coarse = unit < _FINEST or np.mean([*map(_is_round, seen.those(which))]) >= _NEARLY
    if inner[-1] - inner[0] >= 86_400 and ((named and past) or (recent and coarse)):
        return f"{_SINCE_1970[unit]} since 1970"
    return None


def _is_round(value: Any) -> bool:
    try:
        return int(value) % 1000 == 0
    except ValueError:  # a text such as 1e18
        return _number(value, Dialect()) % 1000 == 0


def _of_times(
    name: str,
    seen: _Seen,
    read: NDArray[np.datetime64],
    are_times: NDArray[np.bool_],
    bins: int,
    wanted: bool,
) -> Features:
    """Choose what is checked of those values that are times: date, weekday, hour."""
    times = read[seen.rows_of(are_times)]
    different, at = np.unique(read[are_times], return_inverse=True)
    rows = np.bincount(at, seen.times[are_times]).astype(np.int64)
    days = np.repeat(different, rows).astype("M8[D]")
    found: dict[str, Found] = {"date": _of_dates(times, days, bins, wanted)}
    ends = _inner(days)[[0, -1]]
    span = ends[1] - ends[0] + _DAY
    for by, words in (("weekday", "fall on one weekday"), ("hour", "are of one hour of the day")):
        domain = Times(by)
        of_symbol = np.bincount(domain.encode(different), rows)

        def are_round(unit: str) -> bool:
            return bool(rows[different == different.astype(unit)].sum() >= _NEARLY * len(times))

        if by == "weekday" and are_round("M8[M]"):
            found[by] = "they are months without a day"
        elif of_symbol.max() >= _NEARLY * len(times):
            which = domain.name_of(int(of_symbol.argmax()))
            midnight = by == "hour" and are_round("M8[D]")
            found[by] = "they are dates without a time" if midnight else f"all {words}, {which}"
        elif by == "weekday" and span < _WEEKS and not wanted:
            found[by] = f"its dates span {span // _DAY} days, too few of each weekday"
        else:
            found[by] = domain
    return {f"{name}: {part}": (domain, f"times, by {part}") for part, domain in found.items()}


def _of_dates(
    times: NDArray[np.datetime64], days: NDArray[np.datetime64], bins: int, wanted: bool
) -> Found:
    """Cut dates by the month, or at quantiles if they span less or far more than a year.

    `days` are those of the times, in their order.
    """
    since = times.astype(np.int64).astype(np.float64)
    many = not wanted and len(times) >= _ENOUGH and times.min() < times.max()
    if many and (_go_on(since, strictly=False) or _go_on(-since, strictly=False)):
        return "its dates go on from row to row, as a log's do: later rows have later dates"
    inner = _inner(days)
    span = inner[-1] - inner[0]
    if span < _SEASONS and not wanted:
        return f"its dates span {span // _DAY + 1} days, and later rows have later dates"
    if 60 * _DAY < span <= 731 * _DAY:
        return Times("month")
    edges = np.unique(quantiles_of(days, bins))
    edges = edges[edges > days[0]] if span else edges[:1]
    return Times((edges if len(edges) else days[-1:]).astype(str).tolist())


def _cells(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges around each number, so that what lies between is in a bin of its own."""
    decimals = min(
        max(len(repr(v).partition(".")[2].rstrip("0")) for v in values.tolist()), _DIGITS
    )
    ends = np.round(values + 10.0**-decimals, decimals)
    ends = np.minimum(ends, np.append(values[1:], np.inf))
    return np.unique(np.concatenate([values, ends[ends > values]]))


def _cuts_beside(value: float, rest: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return edges around one number, and between those of the others by their quantiles."""
    above = rest[rest > value]
    next_one = above[0] if len(above) else value + max(abs(value - rest[-1]), 1.0)
    width = 10.0 ** np.floor(np.log10((next_one - value) * _APART))
    cuts = quantiles_of(rest, max(bins - 2, 2))
    return np.unique(np.concatenate([[value, value + width], cuts[cuts > rest[0]]]))


def _of_texts(seen: _Seen, labels: int, wanted: bool) -> tuple[Found, str]:
    """Choose for texts: labels, groups of codes, or why they are none."""
    texts = seen.counted(seen.written)
    rows = sum(texts.values())
    often = _by_frequency(texts)
    common = [text for text in often if not seen.many or texts[text] > 1]
    named = _named(texts, common, labels)
    listed = sum(texts[text] for text in named) >= _LISTED * rows
    long = {text: own for text, own in texts.items() if len(text.strip()) > _SENTENCE}
    repeated = sum(long.get(text, 0) for text in named) >= _HALF * sum(long.values())
    lengths = np.repeat([len(text.strip()) for text in texts], [*texts.values()])
    letters = _inner(np.sort(lengths)).mean()
    too_many = len(common) > labels or not listed
    if not wanted and too_many and letters > _SENTENCE * (2 if repeated else 1):
        return _too_long(texts), ""
    codes = sum(texts[text] for text in often if _CODE.fullmatch(text))
    unique = _HALF if seen.many and codes < _NEARLY * rows else _NEARLY
    if not wanted and rows >= _FEW and len(often) > unique * rows:
        words = f"{len(often):,} different values in {rows:,} rows"
        return f"{words}: it looks like an identifier or free text", ""
    if listed:
        return Labels(named), "labels"
    return _of_codes(texts, labels, seen.many), "codes"


def _by_frequency(texts: Mapping[str, int]) -> list[str]:
    return sorted(texts, key=lambda text: (-texts[text], text))


def _named(times: Mapping[str, int], often: Sequence[str], most: int) -> list[str]:
    """Return so many of the most frequent texts.

    Texts are ranked by half powers of two of their rows, then by the alphabet: among equally
    frequent ones, a single row seldom decides which has the last place.
    """
    ranked = sorted(often, key=lambda text: (-(times[text] ** 2).bit_length(), text))
    kept = frozenset(ranked[:most])
    return [text for text in often if text in kept]


def _mean(texts: Mapping[str, int], of: Callable[[str], int]) -> float:
    return sum(of(text) * rows for text, rows in texts.items()) / sum(texts.values())


def _too_long(texts: Mapping[str, int]) -> str:
    return f"long texts, {_mean(texts, lambda text: len(text.split())):.0f} words on average"


def _of_codes(times: Counter[str], labels: int, many: bool) -> Codes:
    """Name the frequent ones; of codes that are all rare, those that begin alike."""
    often, rows = _by_frequency(times), times.total()
    frequent = [text for text in often if times[text] >= _FREQUENT * rows]
    frequent = _named(times, frequent, labels)
    codes = sum(times[text] for text in often if _CODE.fullmatch(text))
    if sum(times[text] for text in frequent) < rows / 2 and codes >= _NEARLY * rows:
        found: dict[int, Codes] = {}  # by the number of groups: of several prefixes the shortest
        for prefix in range(1, _LONGEST_PREFIX + 1):
            groups: Counter[str] = Counter()
            for text, number in times.items():
                groups[text[:prefix]] += number
            often = [text for text in _by_frequency(groups) if not many or groups[text] > 1]
            named = _named(groups, often, labels)
            if len(often) > 2 and sum(groups[text] for text in named) >= _LISTED * rows:
                found.setdefault(len(often), Codes(named, prefix=prefix))
        if found:
            return found[max(found)]
    return Codes(frequent, _BUCKETS)
