"""Where random bits come from: the operating system, or a seed that a simulation asked for."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
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
    """The operating system's generator, asked anew for every word.

    It keeps no state here: a forked process, a copy, a pickle or a second thread finds none to
    share, so no two of them ever draw the same noise.
    """

    private = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words that were never returned before, uint64 [count]."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededBits:
    """Reproducible bits for simulations. They protect nobody, and the report says so."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(whole("seed", seed, least=0)))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64 [count]."""
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)
