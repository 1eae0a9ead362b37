"""Where random bits come from: the operating system, or a seed that a simulation asked for."""

from __future__ import annotations

import secrets
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from flwr_kld.arguments import whole


class BitSource(Protocol):
    """A stream of independent uniform 64-bit words."""

    private: bool
    """Whether nobody else can predict the words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        ...


class SystemBits:
    """Keystreams of ChaCha20, each under a fresh 256-bit key from the operating system.

    No stream outlives the call that asked for it: a forked process, a copy, a pickle or a second
    thread finds no state to share, so no two of them ever draw the same noise.
    """

    private = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words that were never returned before, uint64 [count]."""
        once = Cipher(algorithms.ChaCha20(secrets.token_bytes(32), bytes(16)), mode=None)
        return np.frombuffer(once.encryptor().update(bytes(8 * count)), dtype=np.uint64)


class SeededBits:
    """Reproducible bits for simulations. They protect nobody, and the report says so."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(whole("seed", seed, least=0)))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)
