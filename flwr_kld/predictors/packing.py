"""Integers off the wire: never inflated to more than the reader expects."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray


def unpacked(packed: bytes, dtype: str, count: int) -> NDArray[np.int64]:
    """Read exactly this many compressed little-endian integers.

    Raises
    ------
    ValueError
        If they are not as many, or not readable.
    """
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, count * np.dtype(dtype).itemsize)
    except zlib.error:
        raise ValueError("packed integers are not readable") from None
    numbers = np.frombuffer(raw, dtype=dtype)
    if inflater.unconsumed_tail or len(numbers) != count:
        raise ValueError(f"packed integers are not {count}")
    return numbers.astype(np.int64)
