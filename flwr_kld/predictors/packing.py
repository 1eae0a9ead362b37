"""Integers off the wire: never inflated to more than the reader expects."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray


def unpacked(packed: bytes, dtype: str, count: int) -> NDArray[np.int64]:
    """Read exactly this many compressed little-endian integers."""
    inflater, size = zlib.decompressobj(), count * np.dtype(dtype).itemsize
    try:
        raw = inflater.decompress(packed, size + 1)  # a byte more shows that there is more
    except zlib.error:
        raise ValueError("packed integers are not readable") from None
    if len(raw) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(f"there must be {count} packed integers")
    return np.frombuffer(raw, dtype=dtype).astype(np.int64)
