"""A tree code for texts: many short hashes of a text's beginnings, from which sums give it back.

A text is counted once in each of `POSITIONS` histograms of `SYMBOLS` cells, each under a public
hash of its first bytes: few in the first histograms, all in the last ones. The name that many
records share is then found byte by byte, the best beginnings first, in the noised sums alone
(`flwr_kld.inference.label_search`). Whatever the length of a text, all histograms tell of it, so
that a short one does not pay for the long ones that could have been there.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.selection import LONGEST

POSITIONS = 64
"""Histograms."""
SYMBOLS = 256
"""Cells of each, a power of two."""
LENGTHS = (4, 8, 12, 16, 24, 32, LONGEST)
"""Bytes to which texts are filled up: each of these has hashes of its own."""
LAST = 16
"""Histograms under all bytes of a text: what any wrong byte spoils."""

States = NDArray[np.uint64]
"""Hash of a beginning."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - SYMBOLS.bit_length() + 1)


def cut(text: str) -> bytes:
    """Return a text in UTF-8, as many of its first characters as `LONGEST` bytes hold.

    Without zeros at its end, which those that fill it up would pass for.
    """
    return text.encode(errors="replace")[:LONGEST].decode(errors="ignore").encode().rstrip(b"\0")


@cache
def bytes_told(length: int) -> tuple[int, ...]:
    """How many of so many bytes each histogram tells of."""
    spread = POSITIONS - LAST
    return tuple(min(length, -(-(place + 1) * length // spread)) for place in range(POSITIONS))


def root(salt: str, length: int) -> np.uint64:
    """Return the state before the first byte of a text of so many."""
    digest = sha256(f"flwr-kld tree code 1\n{length}\n{salt}".encode(errors="replace")).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def step(states: States, byte: NDArray[np.uint8]) -> States:
    """Return the state after one more byte; of the shape of both."""
    return _mixed((states ^ (byte.astype(np.uint64) + np.uint64(1))) * _ODD)


def symbols(states: States, position: int) -> NDArray[np.int64]:
    """Return the cell of each state in one histogram."""
    return (_mixed(states + np.array([position + 1], np.uint64) * _ODD) >> _SHIFT).astype(np.int64)


def encoded(texts: list[bytes], salt: str, position: int) -> NDArray[np.int64]:
    """Return the cell of each text, as `cut` returns it, in one histogram; shape [texts]."""
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    of_length = np.searchsorted(LENGTHS, sizes)
    cells = np.empty(len(texts), dtype=np.int64)
    for number in np.unique(of_length).tolist():
        length, mine = LENGTHS[number], np.flatnonzero(of_length == number)
        filled = b"".join(texts[i].ljust(length, b"\0") for i in mine.tolist())
        rows = np.frombuffer(filled, np.uint8).reshape(-1, length)
        states = np.full(len(mine), root(salt, length))
        for byte in rows.T[: bytes_told(length)[position]]:
            states = step(states, byte)
        cells[mine] = symbols(states, position)
    return cells


def _mixed(words: States) -> States:
    """Mix 64-bit words: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
