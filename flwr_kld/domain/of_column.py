"""Domains for one column of public data, or the reasons why it gets none."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned, quantile_levels
from flwr_kld.domain.codes import Codes
from flwr_kld.domain.labels import Labels, are_truth_values
from flwr_kld.domain.records import (
    as_column,
    as_number,
    is_missing,
    masked_in,
    numbers_in,
    values_in,
)
from flwr_kld.domain.times import EPOCH, Times, times_in

_ENOUGH = 100
"""Rows from which on what all of them have in common says something."""
_NUMBERED = 0.999
"""Of the whole numbers, so many are different in a column of identifiers: amounts repeat."""
_NAMED = 0.95
"""Of the texts, so many are different in a column of identifiers: codes repeat."""
_LISTED = 0.9
"""Rows that labels, or prefixes, are to cover: of fewer, the rest is told apart as well."""
_FREQUENT = 0.01
"""Rows from which on a code among many has a name."""
_BUCKETS = 16
"""Of codes without a name: each holds about 1 % of the rows or more."""
_SENTENCE = 30
"""Characters; a text that is longer on average is no name."""
_CODE = re.compile(r"(?=[^\d]*\d)\S{1,16}")
"""A text whose beginning may say what kind of thing it is: one word with a digit."""
_LONGEST_PREFIX = 5
"""Characters of a code that may count."""
_CALENDAR = {
    (1900, 2100): "year yr jahr annee ano anno",
    (1, 12): "month monat mois mes mese",
    (1, 53): "week weekno weeknumber isoweek calendarweek kw kalenderwoche woche semaine semana",
    (1, 366): "day dayofmonth dayofyear tag jour dia",
    (1, 4): "quarter quartal trimestre",
}
"""Names of columns that a calendar fills, and between which numbers."""
_USUAL = np.datetime64("1990-01-01"), np.datetime64("2040-01-01")
"""Between which numbers are taken for seconds, or their parts, since 1970."""
_LEAST_TIME = 1e7
"""Number from which on `Times` reads one as a time: 20240131 is a date."""
_DAY = np.timedelta64(1, "D")


def features_of_column(
    name: str, values: Any, *, bins: int, labels: int, wanted: bool
) -> dict[str, Domain | str]:
    """Choose domains for public values, by name: of times several, else one of the column's name.

    Instead of a domain comes the reason why there is none; a column that is wanted gets one even if
    it is a counter, an identifier, a free text or alike in few rows. Truth values, and numbers that
    are 0 or 1, get labels, numbers quantile bins, texts their most frequent labels, many codes
    groups. Times get their date, weekday and hour. A column of one value gets that as a label, and
    one of no value none: what varies or is filled from then on is a drift.
    """
    column = as_column(values)
    gone = masked_in(column)
    every = values_in(column)
    there = np.array([type(v) is str or not is_missing(v) for v in every], dtype=bool) & ~gone
    present = [value for value, here in zip(every, there.tolist(), strict=True) if here]
    if not present:
        enough = wanted or len(every) >= _ENOUGH
        return {name: Labels([]) if enough else "it has no values, in few rows"}
    if are_truth_values(present):
        return {name: Labels(["False", "True"])}
    numbers = np.empty(0)
    if not math.isnan(as_number(present[0])) and not any(map(_is_code, present)):
        numbers = numbers_in(column)[there]
    if np.isnan(numbers).any():
        numbers = numbers[:0]
    if len(numbers) and not wanted and (reason := _calendar(name, numbers)):
        return {name: reason}
    if all(_same(value, present[0]) for value in present):
        if not wanted and len(every) < _ENOUGH:
            return {name: "it is constant, in few rows"}
        if isinstance(present[0], str | int | float):
            text = str(present[0])
            return {name: Labels([text]) if wanted or len(text) <= _SENTENCE else _too_long([text])}
    if not len(numbers) or numbers.min() >= _LEAST_TIME:
        times = times_in(column)[there]
        if not np.isnat(times).any() and (not len(numbers) or _are_times(numbers, times)):
            return _of_times(name, times, bins, wanted)
    if len(numbers):
        return {name: _of_numbers(numbers, bins, wanted)}
    texts = [
        value.decode(errors="replace") if isinstance(value, bytes) else value for value in present
    ]
    if not all(isinstance(text, str | int) for text in texts):
        return {name: "it holds neither numbers nor texts, times or truth values alone"}
    return {name: _of_texts([str(text) for text in texts], labels, wanted)}


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and str(value) == str(other)


def _is_code(value: Any) -> bool:
    """Whether a text of digits is none that a number is written as, such as '007'."""
    return isinstance(value, str) and len(value) > 1 and value[0] == "0" and value.isdecimal()


def _calendar(name: str, numbers: NDArray[np.float64]) -> str | None:
    """Say so if numbers move on with the calendar, or from row to row, whatever the data are."""
    plain = unicodedata.normalize("NFKD", name).lower()
    word = "".join(filter(str.isascii, filter(str.isalpha, plain)))
    whole = bool((numbers == np.floor(numbers)).all())
    for (first, last), words in _CALENDAR.items():
        if whole and word in words.split() and first <= numbers.min() and numbers.max() <= last:
            return "a calendar's numbers, which move on whatever the data do"
    before, after = numbers[:-1], numbers[1:]
    for way, goes_on in (("rise", after > before), ("fall", after < before)):
        if len(numbers) >= _ENOUGH and goes_on.all():
            return f"its numbers {way} from each row to the next, as a counter's do"
    return None


def _are_times(numbers: NDArray[np.float64], times: NDArray[np.datetime64]) -> bool:
    """Whether numbers that can be read as times are likely to be meant so."""
    if numbers.max() < EPOCH:
        return True  # such as 20240131, and all of them dates
    first, last = times.min(), times.max()
    return bool(_USUAL[0] <= first and last < _USUAL[1] and last - first >= _DAY)


def _of_times(
    name: str, times: NDArray[np.datetime64], bins: int, wanted: bool
) -> dict[str, Domain | str]:
    """Choose what is checked of times: date, weekday, hour."""
    days = times.astype("M8[D]")
    found: dict[str, Domain | str] = {"date": _of_dates(times, bins, wanted)}
    for by, words in (("weekday", "fall on one weekday"), ("hour", "are of one hour of the day")):
        domain = Times(by)
        symbols = domain.encode(times)
        if (symbols == symbols[0]).all():
            which = domain.name_of(symbols[0])
            midnight = by == "hour" and (times == days).all()
            found[by] = "they are dates without a time" if midnight else f"all {words}, {which}"
        else:
            found[by] = domain
    return {f"{name}: {part}": domain for part, domain in found.items()}


def _of_dates(times: NDArray[np.datetime64], bins: int, wanted: bool) -> Domain | str:
    """Cut dates by the month, or at quantiles if they span less or far more than a year."""
    rising = (times[1:] >= times[:-1]).all() or (times[1:] <= times[:-1]).all()
    if not wanted and len(times) >= _ENOUGH and rising and times[0] != times[-1]:
        return "its dates go on from row to row, as a log's do: later rows have later dates"
    days = np.sort(times.astype("M8[D]"))
    span = days[-1] - days[0]
    if 60 * _DAY < span <= 731 * _DAY:
        return Times("month")
    at = np.quantile(days.astype(np.int64), quantile_levels(bins), method="inverted_cdf")
    edges = np.unique(at.astype(np.int64).astype("M8[D]"))
    edges = edges[edges > days[0]] if span else edges[:1]
    return Times((edges if len(edges) else days[-1:]).astype(str).tolist())


def _of_numbers(numbers: NDArray[np.float64], bins: int, wanted: bool) -> Domain | str:
    rows, numbers = len(numbers), numbers[np.isfinite(numbers)]
    if not len(numbers):
        return "it has no finite numbers"
    if np.isin(numbers, (0.0, 1.0)).all():
        return Labels(["0", "1"])
    different = len(np.unique(numbers))
    whole = bool((numbers == np.floor(numbers)).all())
    numbered = whole and rows >= _ENOUGH and different >= _NUMBERED * len(numbers)
    if numbered and not wanted:
        return f"{different:,} different whole numbers in {rows:,} rows: they look like identifiers"
    return Binned.quantiles(numbers, bins)


def _of_texts(texts: list[str], labels: int, wanted: bool) -> Domain | str:
    times = Counter(texts)
    often = sorted(times, key=lambda text: (-times[text], text))
    covered = sum(times[text] for text in often[:labels])
    if not wanted and len(often) > labels and sum(map(len, texts)) > _SENTENCE * len(texts):
        return _too_long(texts)
    if covered >= _LISTED * len(texts):
        return Labels(often[:labels])
    if not wanted and len(often) > _NAMED * len(texts):
        return (
            f"{len(often):,} different values in {len(texts):,} rows: it looks like an identifier"
        )
    return _of_codes(times, labels, len(texts))


def _too_long(texts: list[str]) -> str:
    words = sum(len(text.split()) for text in texts) / len(texts)
    return f"long texts, {words:.0f} words on average"


def _of_codes(times: Counter[str], labels: int, rows: int) -> Codes:
    """Name the frequent ones; of codes that are all rare, those that begin alike."""
    often = sorted(times, key=lambda text: (-times[text], text))
    frequent = [text for text in often[:labels] if times[text] >= _FREQUENT * rows]
    if sum(times[text] for text in frequent) < rows / 2 and all(map(_CODE.fullmatch, often)):
        found: dict[int, Codes] = {}  # by the number of groups: of several prefixes the shortest
        for prefix in range(1, _LONGEST_PREFIX + 1):
            groups: Counter[str] = Counter()
            for text, number in times.items():
                groups[text[:prefix]] += number
            named = sorted(groups, key=lambda text: (-groups[text], text))[:labels]
            if len(groups) > 2 and sum(groups[text] for text in named) >= _LISTED * rows:
                found.setdefault(len(groups), Codes(named, prefix=prefix))
        if found:
            return found[max(found)]
    return Codes(frequent, _BUCKETS)
