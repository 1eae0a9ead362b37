"""A domain for one column of public data, or the reason why it gets none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.records import as_column, is_missing, masked_in, numbers_in, values_in
from flwr_kld.domain.times import Times

_IDENTIFIERS = 0.999
"""Of the whole numbers, so many are different in a column of identifiers: amounts repeat."""
_ENOUGH = 100
"""Rows from which on this says something."""
_DIFFERENT = 0.5
"""More texts than that are different in a column of names or sentences."""
_COVERED = 0.5
"""Rows that the labels must cover at least."""
_SENTENCE = 30
"""Characters; a text that is longer on average is no name."""


def domain_of_column(values: Any, *, bins: int, labels: int) -> Domain | str:
    """Choose a domain for public values.

    Truth values, and numbers that are 0 or 1, get labels, times hours (weekdays, if all have the
    same hour), numbers quantile bins, and texts their most frequent labels. A column of one value
    gets that as a label, and one of no value none: what varies or is filled from then on is a
    drift.
    """
    column = as_column(values)
    gone = masked_in(column)
    every = values_in(column)
    present = [v for v, m in zip(every, gone.tolist(), strict=True) if not (m or is_missing(v))]
    if not present:
        return Labels([]) if len(every) >= _ENOUGH else "it has no values, in few rows"
    if all(isinstance(value, bool | np.bool_) or _is_truth(value) for value in present):
        return Labels(["False", "True"])
    for by in ("hour", "weekday"):
        of_time = Times(by)
        symbols = of_time.encode(column)
        symbols = symbols[symbols < of_time.size - 1]
        if len(symbols) < len(present):
            break  # not only times
        if len(np.unique(symbols)) > 1 or by == "weekday":
            return of_time
    if all(_same(value, present[0]) for value in present):
        if len(every) < _ENOUGH:
            return "it is constant, in few rows"
        if isinstance(present[0], str | int | float):
            text = str(present[0])
            return Labels([text]) if len(text) <= _SENTENCE else "it is free text"
    numbers = numbers_in(column)
    if np.count_nonzero(~np.isnan(numbers)) == len(present) and not any(map(_is_code, present)):
        return _of_numbers(numbers[np.isfinite(numbers)], bins)
    texts = [
        value.decode(errors="replace") if isinstance(value, bytes) else value for value in present
    ]
    if not all(isinstance(text, str | int) for text in texts):
        return "it holds neither numbers nor texts, times or truth values alone"
    return _of_texts([str(text) for text in texts], labels)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and str(value) == str(other)


def _is_truth(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in ("true", "false")


def _is_code(value: Any) -> bool:
    """Whether a text of digits is none that a number is written as, such as '007'."""
    return isinstance(value, str) and len(value) > 1 and value[0] == "0" and value.isdecimal()


def _of_numbers(numbers: np.ndarray[Any, np.dtype[np.float64]], bins: int) -> Domain | str:
    if not len(numbers):
        return "it has no finite numbers"
    different = len(np.unique(numbers))
    if np.isin(numbers, (0.0, 1.0)).all():
        return Labels(["0", "1"])
    whole = bool((numbers == np.floor(numbers)).all())
    if whole and len(numbers) >= _ENOUGH and different >= _IDENTIFIERS * len(numbers):
        return "its whole numbers are all different, as identifiers are"
    return Binned.quantiles(numbers, bins)


def _of_texts(texts: list[str], labels: int) -> Domain | str:
    often = sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0]))
    if len(often) > labels:
        if sum(map(len, texts)) > _SENTENCE * len(texts):
            return "it is free text"
        if len(often) > _DIFFERENT * len(texts):
            return "its texts are nearly all different, as identifiers are"
        covered = sum(times for _, times in often[:labels]) / len(texts)
        if covered < _COVERED:
            return (
                f"its {labels} most frequent labels of {len(often):,} are in {covered:.0%} of the "
                "rows only"
            )
    return Labels([name for name, _ in often[:labels]])
