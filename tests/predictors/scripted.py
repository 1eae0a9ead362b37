"""Random bits that a test has chosen."""

import numpy as np


class ScriptedBits:
    """Hands out given 128-bit numbers, as pairs of words."""

    private = False

    def __init__(self, *numbers: int) -> None:
        self._words = [word for n in numbers for word in (n >> 64, n & (2**64 - 1))]

    def words(self, count: int) -> np.ndarray:
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)
