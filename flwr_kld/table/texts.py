"""Converts columns of texts to values: by pyarrow where it agrees, else one text at a time.

pyarrow reads no number or time in a text in which `Dialect` and the domains read none or another.
It refuses all texts for one that it cannot read: such are looked up, each different one once.
"""

from __future__ import annotations

from functools import partial
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
_OTHER_DECIMALS = {
    mark: rf"^-?[0-9]{{1,20}}[{other}]([0-9]{{1,2}}|[0-9]{{4,20}})$"
    for mark, other in ((".", ","), (",", "."))
}
"""Numbers with the other mark, which cannot group thousands there: none by the first mark."""


class Texts:
    """Texts of one column of a file or Arrow table, as symbols of its domain.

    pyarrow helps with numbers (`Binned`, `Places`) and `Times`, not with what inherits from them.
    """

    def __init__(self, name: str, domain: Domain, dialect: Dialect) -> None:
        self._read = domain.encode
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
        gone = {*dialect.missing, *dialect.sentinels.get(name, ()), *domain.listed}
        gone = {"", *(text for text in gone if self._takes(text))}
        self._gone = pa.array(sorted(gone), pa.string())

    def _takes(self, text: str) -> bool:
        """Whether pyarrow reads a value in a text."""
        try:
            return self._type is not None and bool(self._cast(pa.array([text])).is_valid()[0])
        except (pa.ArrowInvalid, UnicodeEncodeError):
            return False

    def _cast(self, texts: pa.Array) -> pa.Array:
        if self._comma:
            texts = compute.replace_substring(texts, ",", ".")
        return compute.cast(texts, self._type)

    def values(self, texts: pa.Array) -> NDArray[Any]:
        """Read a block of the column; shape [texts]."""
        if self._type is None:
            return self._looked_up(texts)
        left = compute.is_in(texts, self._gone.cast(texts.type)).to_numpy(zero_copy_only=False)
        for look in (True,) if self._comma else (False, True):
            if look:
                left |= self._has_others(texts)
            try:
                cast = self._cast(compute.if_else(left, None, texts) if left.any() else texts)
            except pa.ArrowInvalid:  # its text quotes one
                continue
            column = cast.to_numpy(zero_copy_only=False)
            values = self._read(column)
            if len(self._nothing):  # spelt otherwise, such as -999.0
                left |= np.isin(column, self._nothing)
            if left.any():
                values = np.array(values)  # they may be Arrow's own
                values[left] = self._looked_up(texts.filter(pa.array(left)))
            return values
        return self._looked_up(texts)

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


def as_list(texts: pa.Array) -> list[str]:
    """Return texts as Python has them."""
    try:
        return texts.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return [_decoded(text) or "" for text in _different(texts)[0][:-1]]


def coded(blocks: list[pa.Array]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the different texts of some blocks, and the place of each text among them."""
    large = sum(block.nbytes for block in blocks) >= _LARGE
    kind = pa.large_string() if large else pa.string()
    found = pa.concat_arrays([block.cast(kind) for block in blocks]).dictionary_encode()
    return found.dictionary, found.indices.to_numpy()


def numbers_of(texts: pa.Array, dialect: Dialect) -> NDArray[np.float64]:
    """Return what `Dialect.number` makes of each of these texts; shape [texts]."""
    plain = compute.match_substring_regex(texts, _PLAIN_NUMBER[dialect.decimal])
    cast = compute.if_else(plain, texts, "0")
    if dialect.decimal == ",":
        cast = compute.replace_substring(cast, ",", ".")
    numbers = np.array(compute.cast(cast, pa.float64()))
    others = ~plain.to_numpy(zero_copy_only=False)
    if others.any():
        numbers[others] = np.nan
        none = compute.match_substring_regex(texts, _OTHER_DECIMALS[dialect.decimal])
        others &= ~none.to_numpy(zero_copy_only=False)
    others = np.flatnonzero(others)
    numbers[others] = [dialect.number(text) for text in as_list(texts.take(pa.array(others)))]
    return numbers


def are_alphabetic(texts: pa.Array) -> NDArray[np.bool_]:
    """Whether each text is one word of letters, spaces around it left out; shape [texts]."""
    words = compute.utf8_is_alpha(compute.utf8_trim_whitespace(texts))
    return np.asarray(words.to_numpy(zero_copy_only=False), dtype=bool)


def are_codes(texts: pa.Array) -> NDArray[np.bool_]:
    """Whether each text is none that a number is written as, such as '007' or '01.30'."""
    codes = compute.match_substring_regex(texts, r"^0\p{Nd}")
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=bool)


def _different(texts: pa.Array) -> tuple[list[bytes | None], NDArray[np.int32]]:
    """Return the different texts, none at last, and the place of each text among them."""
    coded = texts.dictionary_encode()
    as_bytes = pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary()
    spelt = [*coded.dictionary.view(as_bytes).to_pylist(), None]
    return spelt, coded.indices.fill_null(len(spelt) - 1).to_numpy()


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors="replace")
