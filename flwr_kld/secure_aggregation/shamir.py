"""Shamir's secret sharing of 32-byte secrets over the field of 65537 elements.

A secret is sixteen 16-bit limbs, each shared by its own polynomial of degree t − 1 with uniform
coefficients. All products stay below 2^53, so that one float64 matrix product per call is exact.
Shamir, "How to share a secret" (CACM 1979).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation.errors import Tampered

PRIME = 65537
SECRET = 32
"""Bytes of a secret."""
SHARE = 34
"""Bytes of a share: sixteen 17-bit limbs, low words first, then the sixteen high bits."""
_LIMBS = 16
_LAYOUT = np.dtype([("low", "<u2", _LIMBS), ("high", "u1", _LIMBS // 8)])
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
    secrets: bytes, holders: int, threshold: int, random: RandomBytes = os.urandom
) -> NDArray[np.uint8]:
    """Share several secrets at once.

    Parameters
    ----------
    secrets : bytes
        S secrets of 32 bytes, one after the other.
    holders : int
        m; holder h gets the polynomials' values at h + 1.
    threshold : int
        t: any t shares open a secret, any t − 1 are independent of it.

    Returns
    -------
    NDArray[np.uint8]
        Shape [m, S, 34].
    """
    if not 1 <= threshold <= holders < PRIME:
        raise ValueError("a threshold lies between 1 and the number of holders")
    if not secrets or len(secrets) % SECRET:
        raise ValueError("secrets are 32 bytes each")
    limbs = np.frombuffer(secrets, dtype="<u2")
    coefficients = np.empty((threshold, len(limbs)), dtype=np.float64)
    coefficients[0] = limbs
    coefficients[1:] = uniform((threshold - 1) * len(limbs), random).reshape(-1, len(limbs))
    values = (_powers(holders, threshold) @ coefficients).astype(np.int64) % PRIME
    return _pack(values.reshape(holders, -1, _LIMBS))


def combine(shares: NDArray[np.uint8], held: NDArray[np.bool_], threshold: int) -> list[bytes]:
    """Open many secrets at once, each from its own first t shares.

    Parameters
    ----------
    shares : NDArray[np.uint8]
        Shape [R, m, 34]: for each secret the share of each holder.
    held : NDArray[np.bool_]
        Shape [R, m]: which of them are there; at least t in each row.

    Raises
    ------
    Tampered
        If shares are not field elements, or do not open to 32 bytes.
    """
    if len(shares) == 0:
        return []
    if (held.sum(1) < threshold).any():
        raise ValueError("a secret has fewer shares than its threshold")
    chosen = np.argsort(~held, axis=1, kind="stable")[:, :threshold]
    points, which = np.unique(chosen + 1, axis=0, return_inverse=True)
    weights = _lagrange(points)[which.reshape(-1)]
    values = _unpack(np.take_along_axis(shares, chosen[:, :, None], axis=1))
    limbs = np.einsum("rt,rtl->rl", weights, values) % PRIME
    if (limbs == PRIME - 1).any():
        raise Tampered("shares do not open to a secret")
    return [row.tobytes() for row in limbs.astype("<u2")]


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
    """Write field elements, shape [..., 16], as bytes, shape [..., 34]."""
    shares = np.empty(values.shape[:-1], dtype=_LAYOUT)
    shares["low"] = values & 0xFFFF
    shares["high"] = np.packbits((values >> 16).astype(np.uint8), axis=-1, bitorder="little")
    return shares[..., None].view(np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Read bytes, shape [..., 34], as field elements, shape [..., 16]."""
    shares = np.ascontiguousarray(packed).view(_LAYOUT)[..., 0]
    low = shares["low"].astype(np.int64)
    high = np.unpackbits(shares["high"], axis=-1, bitorder="little")
    if (low[high == 1] != 0).any():
        raise Tampered("a share is not an element of the field")
    return low + (high.astype(np.int64) << 16)
