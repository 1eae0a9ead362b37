"""Encodings of private numbers for transport: ring words under masks, or sealed to a key.

The one file of the kernel that imports more than the standard library and NumPy: ciphers and HPKE
are `cryptography`'s.
Proof notes: ``docs/proofs/secure-aggregation.md``, ``docs/proofs/trusted-aggregator.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
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
            stream = Cipher(ChaCha20(_key(key), _NONCE), mode=None).encryptor()
            for part, mask, zeros, into in parts:
                stream.update_into(zeros, into)
                operation(part, mask, out=part)


class KeyedBits:
    """Uniform words from a secret key of 32 bytes, which is used once."""

    private = True

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(ChaCha20(_key(key), _NONCE), mode=None).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def _key(key: bytes) -> bytes:
    if len(key) != KEY:
        raise ValueError("a mask key must be 32 bytes")
    return key


HPKE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

WORD = np.dtype("<u8")
"""Of the ring: sums are modulo 2^64, and little-endian where they travel."""


def from_ring(total: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Read a sum as signed integers in [−2^63, 2^63): two's complement."""
    if total.dtype != WORD:
        raise ValueError("the sum's dtype does not match the ring")
    return total.view("<i8").astype(np.int64)


MODULUS = 2**64 - 2**32 + 1
"""Of the field in which two aggregators' parts add up."""
_CENTRE = np.uint64(MODULUS // 2)
_WRAPPED = np.uint64(2**64 - MODULUS)


def field_mask(key: bytes, length: int) -> NDArray[np.uint64]:
    """Return uniform elements of the field, shape [length], from a key that is used once."""
    stream = KeyedBits(key)
    found = stream.words(length)
    while (beyond := found >= np.uint64(MODULUS)).any():
        found[beyond] = stream.words(int(beyond.sum()))
    return found


def from_field(total: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Read elements of the field as integers around 0."""
    return np.where(total > _CENTRE, total + _WRAPPED, total).view(np.int64)


def seal(public: bytes, content: bytes, context: bytes) -> bytes:
    """Seal bytes for the holder of an X25519 key: HPKE (RFC 9180), with the context as ``info``."""
    return HPKE.encrypt(content, X25519PublicKey.from_public_bytes(public), context)
