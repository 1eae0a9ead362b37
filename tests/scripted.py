"""Random bits that a test has chosen."""

from typing import Self

import numpy as np


class ScriptedBits:
    """Hands out given words."""

    private = False

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    @classmethod
    def of(cls, *numbers: int) -> Self:
        """Hand out 128-bit numbers, as pairs of words."""
        return cls(*(word for n in numbers for word in (n >> 64, n & (2**64 - 1))))

    def words(self, count: int) -> np.ndarray:
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)
