"""Converts columns of texts to values: by pyarrow where it agrees, else one text at a time.

pyarrow reads no number or time in a text in which `Dialect` and the domains read none or another.
It refuses all texts for one that it cannot read: such are looked up, each different one once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.dialect import LONGEST, Dialect
from flwr_kld.table.rounded import Places
from flwr_kld.table.times import Times

_MOST_KNOWN = 100_000
"""Different texts of a column whose values are remembered."""
_LARGE = 1 << 31
"""Bytes of text from which on Arrow needs longer offsets."""
_NUMBERS, _COMMA_NUMBERS, _TIMES = b"0123456789+-.eE", b"0123456789+-,", b"0123456789-:.T "
"""Bytes of the texts that pyarrow is to read."""
_PLAIN_NUMBER = {
    mark: rf"^-?[0-9]{{1,20}}([{mark}][0-9]{{1,20}})?([eE][+-]?[0-9]{{1,2}})?$"
    for mark in (".", ",")
}
"""Numbers by their decimal mark, short enough for pyarrow and the rule to agree on each."""
_NO_NUMBER = {
    mark: rf"^-?[0-9]{{1,20}}[{other}]([0-9]{{1,2}}|[0-9]{{4,20}})$|[0-9][-/][0-9]"
    for mark, other in ((".", ","), (",", "."))
}
"""Numbers with the other mark, which cannot group thousands there, and most dates."""


class Texts:
    """Texts of one column of a file or Arrow table, as symbols of its domain.

    pyarrow helps with numbers (`Binned`, `Places`) and `Times`, not with what inherits from them.
    """

    def __init__(self, name: str, domain: Domain, dialect: Dialect) -> None:
        self._read, self._dialect = domain.encode, dialect
        self._plain = partial(dialect.plain, name=name, reads=domain.reads, kept=domain.listed)
        self._known: dict[bytes | None, Any] = {}
        self._type, usual = {
            Binned: (pa.float64(), _NUMBERS),
            Places: (pa.float64(), _NUMBERS),
            Times: (pa.timestamp("us"), _TIMES),
        }.get(type(domain), (None, b""))
        self._comma = dialect.decimal == "," and usual == _NUMBERS
        self._unusual = np.ones(256, dtype=bool)
        self._unusual[list(_COMMA_NUMBERS if self._comma else usual)] = False
        self._nothing = dialect.sentinel_values(name, domain.reads)
        self._unread = {"", *dialect.missing, *dialect.sentinels.get(name, ()), *domain.listed}

    def different(
        self,
        texts: pa.Array,
        numbers_in: Callable[[Dialect], NDArray[np.float64]],
        among: Callable[[Collection[str]], NDArray[np.bool_]],
    ) -> NDArray[Any]:
        """Read the different texts of a column, of which others have read the numbers."""
        if self._type != pa.float64():
            return self.values(texts)
        numbers = numbers_in(self._dialect)
        return self._with_others(numbers, ~np.isfinite(numbers) | among(self._unread), texts)

    def values(self, texts: pa.Array) -> NDArray[Any]:
        """Read a block of the column; shape [texts]."""
        if self._type is None:
            return self._looked_up(texts)
        left = are_among(texts, self._gone)
        for look in (True,) if self._comma else (False, True):
            if look:
                left |= self._has_others(texts)
            try:
                left_out = compute.if_else(left, None, texts) if left.any() else texts
                cast = _cast(self._type, self._comma, left_out)
            except pa.ArrowInvalid:  # its text quotes one
                continue
            return self._with_others(cast.to_numpy(zero_copy_only=False), left, texts)
        return self._looked_up(texts)

    @cached_property
    def _gone(self) -> set[str]:
        """The empty text, and those that pyarrow would read though they stand for others."""
        return {"", *(text for text in self._unread if _takes(self._type, self._comma, text))}

    def _with_others(
        self, column: NDArray[Any], left: NDArray[np.bool_], texts: pa.Array
    ) -> NDArray[Any]:
        """Read numbers or times, and look up the texts that were left."""
        values = self._read(column)
        if len(self._nothing):  # spelt otherwise, such as -999.0
            left |= np.isin(column, self._nothing)
        if left.any():
            values = np.array(values)  # they may be Arrow's own
            values[left] = self._looked_up(texts.filter(pa.array(left)))
        return values

    def _has_others(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Whether each text has bytes that no text has which pyarrow is to read, or too many."""
        _, offsets, data = texts.buffers()
        width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
        ends = np.frombuffer(offsets, width)[texts.offset :][: len(texts) + 1]
        others = np.zeros(len(texts), dtype=bool)
        if ends[-1] > ends[0]:
            at = np.flatnonzero(self._unusual[np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]])
            others[np.searchsorted(ends, at + ends[0], side="right") - 1] = True
        if self._comma:
            others |= np.diff(ends) > LONGEST
        return others

    def _looked_up(self, texts: pa.Array) -> NDArray[Any]:
        spelt, codes = _different(texts)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        if new := [text for text in spelt if text not in self._known]:
            values = self._read(self._plain([_decoded(text) for text in new])).tolist()
            self._known.update(zip(new, values, strict=True))
        return np.array([self._known[text] for text in spelt])[codes]


@lru_cache(maxsize=1024)
def _takes(kind: pa.DataType, comma: bool, text: str) -> bool:
    """Whether pyarrow reads a value in a text."""
    try:
        return bool(_cast(kind, comma, pa.array([text])).is_valid()[0])
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return False


def _cast(kind: pa.DataType, comma: bool, texts: pa.Array) -> pa.Array:
    if comma:
        texts = compute.replace_substring(texts, ",", ".")
    return compute.cast(texts, kind)


def as_list(texts: pa.Array) -> list[str]:
    """Return texts as Python has them."""
    try:
        return texts.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return [_decoded(text) or "" for text in _different(texts)[0][:-1]]


def coded(
    blocks: list[pa.Array],
) -> tuple[pa.Array, NDArray[np.int32], NDArray[np.float64] | None]:
    """Return the different texts of some blocks, the places of all, and what numbers they are.

    Blocks may be dictionaries; numbers are None unless pyarrow reads one in each text.
    """
    plain = pa.large_string() if sum(block.nbytes for block in blocks) >= _LARGE else pa.string()
    kind = pa.dictionary(pa.int32(), plain) if pa.types.is_dictionary(blocks[-1].type) else plain
    found = pa.concat_arrays([own if own.type == kind else own.cast(kind) for own in blocks])
    if kind == plain:
        numbers = _plain_numbers(found)
        if numbers is not None and len(np.unique(numbers)) == len(numbers):  # so the texts differ
            return found, np.arange(len(found), dtype=np.int32), numbers
        found = found.dictionary_encode()
    return found.dictionary, found.indices.to_numpy(), _plain_numbers(found.dictionary)


def _plain_numbers(texts: pa.Array) -> NDArray[np.float64] | None:
    """Return the numbers of texts; None unless pyarrow reads one in each."""
    try:
        compute.cast(texts.slice(0, 1), pa.float64())  # of many that are none, each takes its time
        return np.array(compute.cast(texts, pa.float64()))
    except pa.ArrowInvalid:
        return None


def numbers_of(texts: pa.Array, dialect: Dialect) -> NDArray[np.float64]:
    """Return what `Dialect.number` makes of each of these texts; shape [texts]."""
    numbers = np.full(len(texts), np.nan)
    left = np.flatnonzero(~_match(texts, _NO_NUMBER[dialect.decimal]))
    texts = texts.take(pa.array(left))
    plain = _match(texts, _PLAIN_NUMBER[dialect.decimal])
    comma = dialect.decimal == ","
    numbers[left[plain]] = _cast(pa.float64(), comma, texts.filter(pa.array(plain)))
    others = as_list(texts.filter(pa.array(~plain)))
    numbers[left[~plain]] = [dialect.number(text) for text in others]
    return numbers


def _match(texts: pa.Array, pattern: str) -> NDArray[np.bool_]:
    return _as_mask(compute.match_substring_regex(texts, pattern))


def _as_mask(found: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def are_alphabetic(texts: pa.Array) -> NDArray[np.bool_]:
    """Whether each text is one word of letters, spaces around it left out; shape [texts]."""
    return _as_mask(compute.utf8_is_alpha(compute.utf8_trim_whitespace(texts)))


def are_among(texts: pa.Array, some: Collection[str]) -> NDArray[np.bool_]:
    """Whether each text is one of some; shape [texts]."""
    return _as_mask(compute.is_in(texts, pa.array([*some], texts.type)))


def have(texts: pa.Array, mark: str, times: int = 1) -> NDArray[np.bool_]:
    """Whether each text has a mark of ASCII so many times or more; shape [texts]."""
    data = texts.buffers()[2]
    if data is None or mark.encode() not in data.to_pybytes():  # which takes less time
        return np.zeros(len(texts), dtype=bool)
    return np.asarray(compute.count_substring(texts, mark).to_numpy() >= times, dtype=bool)


def are_codes(texts: pa.Array) -> NDArray[np.bool_]:
    """Whether each text is none that a number is written as, such as '007' or '01.30'."""
    codes = _as_mask(compute.starts_with(texts, "0")) & ~_as_mask(compute.starts_with(texts, "0."))
    if codes.any():
        second = compute.utf8_slice_codeunits(texts.filter(pa.array(codes)), 1, 2)
        codes[codes] = _as_mask(compute.utf8_is_decimal(second))
    return codes


def times_of(texts: pa.Array) -> NDArray[np.datetime64] | None:
    """Return the times that texts spell in ISO 8601; None unless each of them does."""
    try:
        return np.array(compute.cast(texts, pa.timestamp("us")).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def _different(texts: pa.Array) -> tuple[list[bytes | None], NDArray[np.int32]]:
    """Return the different texts, none at last, and the place of each text among them."""
    coded = texts.dictionary_encode()
    as_bytes = pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary()
    spelt = [*coded.dictionary.view(as_bytes).to_pylist(), None]
    return spelt, coded.indices.fill_null(len(spelt) - 1).to_numpy()


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors="replace")
