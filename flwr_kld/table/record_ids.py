"""Record ids: a client follows its records by them; they never leave it."""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import date
from decimal import Decimal
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.vector import Held
from flwr_kld.table.base import Symbols
from flwr_kld.table.records import all_true, as_column, masked_in, values_in

logger = logging.getLogger("flwr_kld")

_WHOLE = re.compile(r"(-?[0-9]{1,20})(?:\.0*)?")
"""Whole numbers of at most 64 bits or little more, as a file or a column of floats writes them."""
_MASK = (1 << 64) - 1
_DIGITS = 400
"""Of a decimal number that is read as a whole one: more than any float has."""


def record_ids(symbols: Held[Symbols], given: object) -> NDArray[np.uint64]:
    """Turn a client's own ids of its records into 64 bits each."""
    column = as_column(given)
    if len(column) != symbols.into(len):
        raise ValueError("there must be one id for each record")
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and all_true(column >= 0):
        ids = np.array(column, np.uint64)  # of a masked one what is beneath
    else:
        ids = np.array([_id_of(value) for value in values_in(column)], dtype=np.uint64)
    if type(column) is not np.ndarray or column.dtype.kind == "M":
        ids[masked_in(column)] = _id_of(None)
    ascending = all_true(ids[1:] > ids[:-1])
    shared = 0 if ascending else len(ids) - len(np.unique(ids))
    if shared:
        logger.warning(
            "%d of %d records have no id of their own: records of one id count as the first of "
            "them, and so do all without an id",
            shared,
            len(ids),
        )
    return ids


def _id_of(value: Any) -> int:
    """Return 64 bits of any value at all; missing values share one id, and so do odd objects."""
    try:
        value = value.decode("latin-1") if isinstance(value, bytes) else value
        value = str(value) if isinstance(value, UUID | date) else value
        if isinstance(value, str):
            whole_number = _WHOLE.fullmatch(value)
            if whole_number is None:
                return _hash_of("text", value)
            value = int(whole_number[1])
        if value is None or value != value:  # NaN, or a date that is none
            return _hash_of("missing")
        if isinstance(value, Decimal) and value.adjusted() > _DIGITS:  # as an int it takes seconds
            return _hash_of("number", str(value))
        if not isinstance(value, Integral) and value != int(value):
            return _hash_of("number", repr(float(value)))
        number = int(value)
        return number if 0 <= number <= _MASK else _hash_of("text", str(number))
    except Exception:  # infinite, not even a number, or an odd one
        return _hash_of("odd")


def _hash_of(kind: str, text: str = "") -> int:
    digest = hashlib.sha256(f"{kind} {text}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little")
