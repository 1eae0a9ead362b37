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
_NUMBERS, _COMMA_NUMBERS, _TIMES = b"0123456789+-.eE", b"0123456789+-,", b"0123456789-:.T "
"""Bytes of the texts that pyarrow is to read."""


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


def as_list(texts: pa.Array) -> list[str | None]:
    """Return texts as Python has them."""
    spelt, codes = _different(texts)
    known = [_decoded(text) for text in spelt]
    return [known[code] for code in codes.tolist()]


def _different(texts: pa.Array) -> tuple[list[bytes | None], NDArray[np.int32]]:
    """Return the different texts, none at last, and the place of each text among them."""
    coded = texts.dictionary_encode()
    as_bytes = pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary()
    spelt = [*coded.dictionary.view(as_bytes).to_pylist(), None]
    return spelt, coded.indices.fill_null(len(spelt) - 1).to_numpy()


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors="replace")
