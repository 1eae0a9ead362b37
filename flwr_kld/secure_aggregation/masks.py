"""Masks: a ChaCha20 keystream under a 256-bit key, added to a vector or taken off in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

KEY = 32
"""Bytes of a mask key: all 256 bits reach the cipher."""
_CHUNK = 1 << 17  # bytes; stays in the second-level cache
_ZEROS = memoryview(bytes(_CHUNK))
_NONCE = bytes(16)  # a key is used for one stream only


def apply_masks(vector: NDArray[Any], added: list[bytes], removed: list[bytes]) -> None:
    """Add and subtract masks in place, modulo the vector's word."""
    size = vector.dtype.itemsize
    step = _CHUNK // size
    room = np.empty(min(step, len(vector)), dtype=vector.dtype)
    raw = room.view(np.uint8).data
    parts = [  # cut once, for all keys: a piece of the vector, and the room for its mask
        (vector[start : start + step], room[:left], _ZEROS[: left * size], raw[: left * size])
        for start in range(0, len(vector), step)
        for left in (min(step, len(vector) - start),)
    ]
    for keys, operation in ((added, np.add), (removed, np.subtract)):
        for key in keys:
            stream = Cipher(algorithms.ChaCha20(_key(key), _NONCE), mode=None).encryptor()
            for part, mask, zeros, into in parts:
                stream.update_into(zeros, into)
                operation(part, mask, out=part)


def _key(key: bytes) -> bytes:
    if len(key) != KEY:
        raise ValueError("a mask key must be 32 bytes")
    return key
