"""Integers modulo 2^bits: how signed values go in and come out, and what fits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import whole

WORDS: dict[int, np.dtype[Any]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}
"""Little-endian word of each ring."""


def word(bits: int) -> np.dtype[Any]:
    """Return the unsigned word of the ring modulo 2^bits; bits is 32 or 64."""
    return WORDS[check_bits(bits)]


def check_bits(bits: int) -> int:
    """Return the size of a ring as Python's number; ValueError unless it is 32 or 64."""
    bits = whole("bits", bits)
    if bits not in WORDS:
        raise ValueError(f"a ring is modulo 2^32 or 2^64: bits must be 32 or 64, got {bits}")
    return bits


def to_ring(values: NDArray[Any], bits: int = 32) -> NDArray[Any]:
    """Write signed integers in two's complement."""
    target = word(bits)
    if values.dtype.kind not in "iu":
        raise ValueError("a secure sum adds integers: scale and round first")
    half = 1 << (bits - 1)
    if values.size and not (-half <= int(values.min()) and int(values.max()) < half):
        raise ValueError("a value does not fit the ring: use 64 bits or a coarser scale")
    return values.astype(np.int64).astype(target)


def from_ring(total: NDArray[Any], bits: int = 32) -> NDArray[np.int64]:
    """Read a sum as signed integers in [−2^(bits−1), 2^(bits−1)); inverse of `to_ring`."""
    if total.dtype != word(bits):
        raise ValueError("the sum's dtype does not match the ring")
    return total.view(f"<i{bits // 8}").astype(np.int64)


def require_room(bits: int, largest: int, clients: int) -> None:
    """Refuse a sum that could wrap: `clients` values of at most `largest` in magnitude."""
    clients, largest = whole("clients", clients, least=1), whole("largest", largest, least=0)
    if clients * largest >= 1 << (check_bits(bits) - 1):
        raise ValueError(
            f"{clients} clients may sum to more than {bits} bits hold: use bits=64 or a lower bound"
        )


def checked(values: NDArray[Any], length: int, bits: int) -> NDArray[Any]:
    """Return a fresh copy of a client's vector as ring words, shape [length]."""
    target = word(bits)
    if values.shape != (length,):
        raise ValueError("the vector does not have the session's length")
    if values.dtype.kind not in "iu":
        raise ValueError("a secure sum adds integers")
    if values.size and (int(values.min()) < 0 or int(values.max()) >> bits):
        raise ValueError("a value lies outside the ring: write signed values with to_ring")
    return values.astype(target, copy=True)
