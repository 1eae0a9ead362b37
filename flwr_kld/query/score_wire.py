"""The scores of a question as bytes, little-endian and in one form.

    most records     4 bytes
    deflated         1 byte: 1 if the rest is, which it is if that makes it shorter
    cells            4 bytes a column
    ceiling          8 bytes a column
    divergence       2 bytes a cell, column after column
    outside          2 bytes a cell, column after column

No scores are one byte, 0. Which deflated form stands for the numbers is left to the sender's zlib:
a plan's fingerprint covers the numbers themselves.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

import numpy as np

from flwr_kld.kernel.count import Scores

NO_SCORES = b"\0"
_HEAD = struct.Struct("<IB")
_A_COLUMN, _A_CELL = 12, 4
_NOT_READABLE = "the query's scores are not readable"


def scores_as_bytes(scores: tuple[Scores, ...] | None) -> bytes:
    """Return what a fingerprint covers: everything, nothing deflated; empty for no scores."""
    return _head(scores, deflated=False) + _body(scores) if scores else b""


def scores_to_wire(scores: tuple[Scores, ...] | None) -> bytes:
    """Write the scores of each column, which count alike."""
    if not scores:
        return NO_SCORES
    body = _body(scores)
    packed = zlib.compress(body)
    deflated = len(packed) < len(body)
    return _head(scores, deflated=deflated) + (packed if deflated else body)


def most_records_of(wire: bytes) -> int:
    """Read how many records a client counts at most; nothing is inflated."""
    return _read_head(wire)[0]


@lru_cache(maxsize=4)
def scores_from_wire(wire: bytes, columns: int, cells: int) -> tuple[Scores, ...] | None:
    """Read the scores of so many columns, with so many cells in all, in their one form."""
    # The caller knows that a domain has as many: bytes are inflated to what these numbers need, and
    # not further.
    if wire == NO_SCORES:
        return None
    most_records, deflated = _read_head(wire)
    body, length = wire[_HEAD.size :], _A_COLUMN * columns + _A_CELL * cells
    if deflated and len(body) < length:
        body = inflated(body, length, _NOT_READABLE)
    elif deflated:
        raise ValueError(_NOT_READABLE)
    if len(body) != length:
        raise ValueError("the query does not score each cell of each column")
    sizes = np.frombuffer(body, "<u4", columns)
    ceilings = np.frombuffer(body, "<i8", columns, 4 * columns)
    tables = np.frombuffer(body, "<i2", 2 * cells, _A_COLUMN * columns).reshape(2, cells)
    if sizes.sum(dtype=np.int64) != cells or not sizes.all():
        raise ValueError("the query does not score each cell of each column")
    ends = np.cumsum(sizes, dtype=np.int64)[:-1]
    split = (np.split(table, ends) for table in tables)
    return tuple(
        Scores(tuple(one.tolist()), tuple(other.tolist()), ceiling, most_records)
        for one, other, ceiling in zip(*split, ceilings.tolist(), strict=True)
    )


def inflated(packed: bytes, size: int, error: str) -> bytes:
    """Inflate what holds exactly so many bytes, at least 1, and no byte more of anything else."""
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, size)
    except zlib.error:
        raise ValueError(error) from None
    if len(raw) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(error)
    return raw


def _head(scores: tuple[Scores, ...], *, deflated: bool) -> bytes:
    return _HEAD.pack(scores[0].most_records, deflated)


def _body(scores: tuple[Scores, ...]) -> bytes:
    return b"".join(
        [
            np.array([each.cells for each in scores], "<u4").tobytes(),
            np.array([each.ceiling for each in scores], "<i8").tobytes(),
            np.concatenate([each.divergence for each in scores]).astype("<i2").tobytes(),
            np.concatenate([each.outside for each in scores]).astype("<i2").tobytes(),
        ]
    )


def _read_head(wire: bytes) -> tuple[int, bool]:
    if len(wire) < _HEAD.size:
        raise ValueError(_NOT_READABLE)
    most_records, deflated = _HEAD.unpack_from(wire)
    if deflated > 1:
        raise ValueError(_NOT_READABLE)
    return most_records, deflated == 1
