"""Noised log-likelihood scores of one hypothesis, on a public grid of integers.

The paper adds continuous Laplace noise to a real number, which floating point cannot do privately.
Here the score is rounded at random to one of the two grid points next to it, so its mean is kept,
and discrete Laplace noise is drawn from an exact table that was checked for the largest move.
Proof note: ``docs/proofs/local-wma.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.predictors.laws import Floats

_FRACTION = 32
_ONE = 1 << _FRACTION


class ScoreNoise:
    """Privatises the score of a label under one hypothesis."""

    def __init__(self, fixed: NDArray[np.int64], epsilon: float, most_moves: int) -> None:
        self.fixed = fixed
        self.epsilon = epsilon
        low, high = int(fixed.min()) >> _FRACTION, -(-int(fixed.max()) >> _FRACTION)
        self.moves = max(high - low, 1)
        if self.moves > most_moves:
            raise ValueError(f"scores move by {self.moves} grid steps, more than {most_moves}")
        event = calibrated_laplace(Guarantee(epsilon), shifts=(self.moves,))
        self.table = event.table
        self.low, self.high = low - self.table.reach, high + self.table.reach

    def draw(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Noised scores of labels [n], in grid steps, int64 [n]."""
        fixed = self.fixed[labels]
        chance = (bits.words(len(labels)) >> np.uint64(64 - _FRACTION)).astype(np.int64)
        rounded = (fixed >> _FRACTION) + (chance < (fixed & (_ONE - 1)))
        noised = rounded + sample(self.table, len(labels), bits)
        return np.asarray(np.clip(noised, self.low, self.high))


def fixed_point(scores: Floats) -> NDArray[np.int64]:
    """Write scores in grid steps, shape [M], in ``2**-32`` of one."""
    return np.rint(scores * _ONE).astype(np.int64)
