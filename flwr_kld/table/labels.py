"""Labels: one symbol for each name in a public list, and two for what is not in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain, Symbols, in_order, unlisted_beside
from flwr_kld.table.records import as_column, is_missing, masked_in, number_of, values_in

_LARGEST = int(np.iinfo(np.int64).max)
_SPELLINGS = (
    ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("off", "on"), ("falsch", "wahr"),
    ("nein", "ja"), ("n", "j"), ("faux", "vrai"), ("non", "oui"), ("no", "sí"), ("no", "si"),
    ("falso", "verdadero"), ("falso", "vero"), ("falso", "verdadeiro"), ("não", "sim"),
    ("nee", "ja"),
)  # fmt: skip
"""Of truth values in texts."""


@dataclass(frozen=True, eq=False)
class Labels(Domain):
    """Categories of one feature; symbol i is ``names[i]``, then come 'other' and 'missing'.

    'Missing' are None, NaN, NaT, masked values and pandas' NA; 'other' is everything else that is
    not among the names. A text (or its bytes) is the name that is spelt so; if none is, it is the
    name of the same number, and so is a number or a truth value: 1, 1.0, True, '1', '01', '1.0' and
    'true' are one label, as one missing or odd record may turn a column of integers into floats or
    text. If several names are the same number, that is the one spelt '1', not '01' or '1.0', or
    else 'other': list such names only for columns that are read as text. Where the names are
    "False" and "True", texts are read as truth values in any spelling: 'no', 'N', 'nein', 'off'.

    Parameters
    ----------
    names : Sequence of str or of int
        The labels that are told apart, distinct, all text or all integers. Their order matters.
        Of none, a value that is there is told from one that is missing.

    Raises
    ------
    DomainError
        If two names are equal, or text and integers are mixed.

    Examples
    --------
    >>> Labels(["red", "green"]).encode(["green", "red", "blue", None])
    array([1, 0, 2, 3])
    """

    names: Sequence[str] | Sequence[int]
    kind: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        names = _as_names(self.names)
        if len(set(names)) != len(names):
            raise DomainError("the names of Labels must be distinct")
        object.__setattr__(self, "names", names)

    @property
    def size(self) -> int:
        """Number of names, and two."""
        return len(self.names) + 2

    @property
    def listed(self) -> Sequence[str]:
        """The names."""
        return [str(name) for name in self.names]

    @property
    def unlisted(self) -> tuple[str, ...]:
        """'other' and 'missing'; in brackets where a name is spelt so."""
        return unlisted_beside(self.names)

    def encode(self, records: Any) -> Symbols:
        """Map labels to their places in ``names``, and all else to 'other' or 'missing'.

        `records` are an array, a data frame's column, or a sequence of n values of any type;
        the rest is as in `Domain.encode`.
        """
        column = as_column(records)
        if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
            distinct, place = np.unique(np.ma.getdata(column), return_inverse=True)
            symbols = self._look_up(distinct.tolist())[place]
        elif isinstance(column, np.ndarray) and column.dtype.kind in "MV":
            symbols = np.full(len(column), len(self.names), dtype=np.int64)
        else:
            symbols = self._look_up(values_in(column))
        symbols[masked_in(column)] = self.size - 1
        return symbols

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the label itself, or 'other' or 'missing'."""
        index = self._index(symbol)
        if index < len(self.names):
            return str(self.names[index])
        return self.unlisted[index - len(self.names)]

    def _look_up(self, values: list[Any]) -> Symbols:
        place = self._places.get
        try:
            found = [place(value) for value in values]
        except Exception:  # one that has no hash, or an odd one: each by itself
            found = [None] * len(values)
        texts: dict[str, int] = {}  # most of them are in many records
        for i, symbol in enumerate(found):
            if symbol is None:
                value = values[i]
                if type(value) is not str:
                    found[i] = self._symbol(value)
                elif value in texts:
                    found[i] = texts[value]
                else:
                    found[i] = texts[value] = self._symbol(value)
        return np.array(found, dtype=np.int64)

    def _symbol(self, value: Any) -> int:
        """Return the symbol of any value at all."""
        other = len(self.names)
        if is_missing(value):
            return other + 1
        try:
            if isinstance(value, bytes):
                value = value.decode()
            if isinstance(value, Decimal | np.float16 | np.float32):  # 0.1 is no float's own value
                value = str(value)
            symbol = self._places.get(value)
            if symbol is None and isinstance(value, str):
                symbol = self._places.get(_number(value))
                if symbol is None and self.names == ("False", "True"):
                    symbol = _TRUTH.get(value.strip().casefold())
            return other if symbol is None else symbol
        except Exception:
            return other

    @cached_property
    def _places(self) -> dict[str | float, int]:
        """Symbol of each name, and of each number that is one name's alone."""
        texts = {str(name): symbol for symbol, name in enumerate(self.names)}
        same: dict[float, list[int]] = {}
        for text, symbol in texts.items():
            same.setdefault(_number(text), []).append(symbol)
        numbers = {
            number: texts.get(str(number)) if len(symbols) > 1 else symbols[0]
            for number, symbols in same.items()
            if number == number
        }
        return texts | {number: s for number, s in numbers.items() if s is not None}


_TRUTH = {text: symbol for pair in _SPELLINGS for symbol, text in enumerate(pair)}


def are_truth_values(values: list[Any]) -> bool:
    """Whether public values are truth values, or texts that spell false and true in one way."""
    kinds = set(map(type, values))
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return True
    if not all(issubclass(kind, str) for kind in kinds):
        return False
    different = set(values)
    if not all(value.strip().casefold() in _TRUTH for value in different):
        return False
    spelt = {value.strip().casefold() for value in different}
    pairs = [pair for pair in map(set, _SPELLINGS) if pair <= spelt]
    return spelt == set().union(*pairs) or spelt <= {"false", "true"}


def _number(text: str) -> float:
    """Return the number that a text spells, exactly if it is a whole one; NaN if it is none."""
    number = number_of(text)
    if not number.is_integer():
        return number
    try:
        return int(text)
    except ValueError:  # "1.0", "true"
        return int(number)


def _as_names(values: Any) -> tuple[str, ...] | tuple[int, ...]:
    """Return names that are all text or all integers; refuse anything else."""
    if not isinstance(values, str | bytes | Mapping) and hasattr(values, "__iter__"):
        names = in_order("the names of Labels", values)
        if all(isinstance(name, str) for name in names):
            return tuple(str(name) for name in names)
        if all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in names):
            if any(abs(int(name)) > _LARGEST + (name < 0) for name in names):
                raise DomainError("integer names must fit in 64 signed bits")
            return tuple(int(name) for name in names)
    raise DomainError("the names of Labels must be a list, all of text or all of integers")
