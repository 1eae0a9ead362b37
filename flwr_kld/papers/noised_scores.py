"""What a client of the two online algorithms reports: noised log-likelihoods of one label.

The paper adds continuous Laplace noise to a real number, which floating point cannot do privately.
Here the score is rounded at random to one of the two grid points next to it, so its mean is kept,
and discrete Laplace noise is drawn from an exact table that was checked for the largest move.
Proof note: ``docs/proofs/papers.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.papers.clipping import Resampling
from flwr_kld.predictors.laws import Floats

_FRACTION = 32
_ONE = 1 << _FRACTION


class ScoreNoise:
    """Privatises the score of a label under one hypothesis."""

    def __init__(self, scores: Floats, epsilon: float) -> None:
        """Take the scores of all labels in grid steps, shape [M]."""
        self.fixed = np.rint(scores * _ONE).astype(np.int64)  # in 2**-32 of a step
        low, high = int(self.fixed.min()) >> _FRACTION, -(-int(self.fixed.max()) >> _FRACTION)
        self.moves = max(high - low, 1)
        self.table = calibrated_laplace(Guarantee(epsilon), shifts=(self.moves,)).table
        self.low, self.high = low - self.table.reach, high + self.table.reach

    def draw(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Noised scores of labels [n], in grid steps, int64 [n]."""
        fixed = self.fixed[labels]
        chance = (bits.words(len(labels)) >> np.uint64(64 - _FRACTION)).astype(np.int64)
        rounded = (fixed >> _FRACTION) + (chance < (fixed & (_ONE - 1)))
        noised = rounded + sample(self.table, len(labels), bits)
        return np.asarray(np.clip(noised, self.low, self.high))


class ScoreQuery:
    """Asks for the noised scores of one or of all hypotheses."""

    def __init__(self, resampling: Resampling, noises: Sequence[ScoreNoise]) -> None:
        self.resampling = resampling
        self.noises = noises

    def answers(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Privatise labels [n], each on its own: noised scores, shape [n, scores]."""
        mapped = self.resampling.apply(labels, bits)
        return np.stack([noise.draw(mapped, bits) for noise in self.noises], axis=1)
