"""Shamir's secret sharing over the field of 65537 elements.

A secret is a row of 16-bit limbs, each shared by its own polynomial of degree t − 1 with uniform
coefficients. All products stay below 2^53, so that one float64 matrix product per call is exact.
Shamir, "How to share a secret" (CACM 1979).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PRIME = 65537
SECRET = 32
"""Bytes of a secret, unless said otherwise."""
SHARE = 34
"""Bytes of its share: sixteen 17-bit limbs, low words first, then the sixteen high bits."""
_LARGEST_WORD = np.uint32(2**32 - 1)  # 2^32 − 1 = 65535 · 65537: all smaller words fold evenly

RandomBytes = Callable[[int], bytes]


def uniform(count: int, random: RandomBytes = os.urandom) -> NDArray[np.int64]:
    """Draw `count` exactly uniform field elements."""
    words = np.frombuffer(random(4 * count), dtype="<u4")
    while (again := words == _LARGEST_WORD).any():
        words = words.copy()
        words[again] = np.frombuffer(random(4 * int(again.sum())), dtype="<u4")
    return (words % PRIME).astype(np.int64)


@lru_cache(maxsize=32)
def _powers(holders: int, threshold: int) -> NDArray[np.float64]:
    """x^e for x = 1..holders and e = 0..threshold−1."""
    powers = np.ones((holders, threshold), dtype=np.int64)
    for e in range(1, threshold):
        powers[:, e] = powers[:, e - 1] * np.arange(1, holders + 1) % PRIME
    return powers.astype(np.float64)


def split(
    secrets: bytes,
    holders: int,
    threshold: int,
    random: RandomBytes = os.urandom,
    size: int = SECRET,
) -> NDArray[np.uint8]:
    """Share several secrets at once."""
    if not 1 <= threshold <= holders < PRIME:
        raise ValueError("a threshold must lie between 1 and the number of holders")
    if not secrets or len(secrets) % size:
        raise ValueError(f"secrets must be {size} bytes each")
    limbs = np.frombuffer(secrets, dtype="<u2")
    coefficients = np.empty((threshold, len(limbs)), dtype=np.float64)
    coefficients[0] = limbs
    coefficients[1:] = uniform((threshold - 1) * len(limbs), random).reshape(-1, len(limbs))
    values = (_powers(holders, threshold) @ coefficients).astype(np.int64) % PRIME
    return _pack(values.reshape(holders, -1, size // 2))


def combine(
    shares: NDArray[np.uint8], held: NDArray[np.bool_], threshold: int
) -> list[bytes | None]:
    """Open many secrets at once, each from its own first t shares."""
    if len(shares) == 0:
        return []
    if (held.sum(1) < threshold).any():
        raise ValueError("a secret has fewer shares than its threshold")
    chosen = np.argsort(~held, axis=1, kind="stable")[:, :threshold]
    points, which = np.unique(chosen + 1, axis=0, return_inverse=True)
    weights = _lagrange(points)[which.reshape(-1)]
    values = _unpack(np.take_along_axis(shares, chosen[:, :, None], axis=1))
    limbs = np.einsum("rt,rtl->rl", weights, values) % PRIME
    good = (values < PRIME).all((1, 2)) & (limbs < PRIME - 1).all(1)
    rows = zip(limbs.astype("<u2"), good.tolist(), strict=True)
    return [row.tobytes() if opens else None for row, opens in rows]


def _lagrange(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Weights Π x_b / (x_b − x_a), b ≠ a, of the values at 0; both shapes [R, t]."""
    above = np.ones((len(points), 1), dtype=np.int64)
    below = points.copy()  # starts with x_a, which the product above holds once too often
    for b in range(points.shape[1]):
        column = points[:, b : b + 1]
        above = above * column % PRIME
        difference = column - points
        difference[:, b] = 1
        below = below * difference % PRIME
    return above * _inverse(below) % PRIME


def _inverse(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Inverses in the field: x^65535 by squaring."""
    result = values % PRIME
    base = result
    for _ in range(15):
        base = base * base % PRIME
        result = result * base % PRIME
    return result


def _pack(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Write field elements, shape [..., limbs], as bytes, 17 for each eight of them."""
    shares = np.empty(values.shape[:-1], dtype=_layout(values.shape[-1]))
    shares["low"] = values & 0xFFFF
    shares["high"] = np.packbits((values >> 16).astype(np.uint8), axis=-1, bitorder="little")
    return shares[..., None].view(np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Read what `_pack` wrote; bytes that it did not write may give more than a field element."""
    layout = _layout(packed.shape[-1] // 17 * 8)
    shares = np.ascontiguousarray(packed).view(layout)[..., 0]
    high = np.unpackbits(shares["high"], axis=-1, bitorder="little")
    values: NDArray[np.int64] = shares["low"] + (high.astype(np.int64) << 16)
    return values


def _layout(limbs: int) -> np.dtype[np.void]:
    return np.dtype([("low", "<u2", (limbs,)), ("high", "u1", (limbs // 8,))])
