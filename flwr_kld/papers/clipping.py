"""The paper's clipping: labels are split into cells so that log-likelihoods have a bounded range.

Sima, Wu, Milenkovic, Szpankowski, "Online Distribution Learning with Local Private Constraints",
section 4.2. Corrected: eq. (3) and (7) claim ``N' <= KM`` and with it a range of ``ln(KT)``, but
only ``N' < (K + 1) M`` holds, and noise of scale ``ln(KT) / epsilon`` is not epsilon-private
(M = 6: 1.019 where 1 is claimed). Here each hypothesis' range is computed from its own numbers.
Proof note: ``docs/proofs/papers.md``.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.law import BitSource, uniform_below
from flwr_kld.predictors.laws import Floats, Laws

_ROUNDING = 1e-9


class Resampling:
    """What is public of the paper's random map h_t: now and then a uniform cell's label."""

    def __init__(self, cells: NDArray[np.int64], horizon: int) -> None:
        self.cells = cells
        self.horizon = whole("horizon", horizon, least=2)
        self.resampled = -(-(1 << 64) // self.horizon)
        """``2**64`` times the probability of a replacement, rounded up: ⌈2**64 / T⌉."""

    @property
    def labels(self) -> int:
        """M."""
        return len(self.cells)

    @property
    def total(self) -> int:
        """N', the number of cells."""
        return int(self._ends[-1])

    def apply(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Map labels [n], of which about n/T are replaced by the label of a uniform cell."""
        mapped = np.array(labels)
        for i in np.flatnonzero(bits.words(len(mapped)) < np.uint64(self.resampled)):
            cell = uniform_below(self.total, bits)
            mapped[i] = np.searchsorted(self._ends, cell, side="right")
        return mapped

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.cells)


class Clipping:
    """What the random map h_t makes of the hypotheses. Public."""

    def __init__(self, laws: Laws, horizon: int) -> None:
        self.laws = laws
        self.horizon = horizon
        largest = laws.labels * laws.probabilities.max(axis=0)
        whole = np.ceil(largest - _ROUNDING)  # 1 + 1e-16 stands for 1
        self.cells: NDArray[np.int64] = np.maximum(whole, 1).astype(np.int64)
        """``c_y = ⌈M max_j f_j(y)⌉``, at least 1, shape [M]."""
        self.resampling = Resampling(self.cells, horizon)
        """The map h_t itself, which clients apply."""

    @property
    def total(self) -> int:
        """N', the number of cells."""
        return self.resampling.total

    @cached_property
    def scores(self) -> Floats:
        """``ln(M p̄_j)`` in any of a label's cells, nats, shape [K, M]; at most about 0."""
        kept = (1 - 1 / self.horizon) * self.laws.probabilities / self.cells
        return np.asarray(np.log(self.laws.labels * (kept + 1 / (self.horizon * self.total))))

    @property
    def ranges(self) -> Floats:
        """Δ_j, how far a hypothesis' score varies over the labels, nats, shape [K]."""
        return np.asarray(self.scores.max(axis=1) - self.scores.min(axis=1))

    @property
    def widest(self) -> float:
        """``ln((K + 1) T)``: larger than any range, for any laws."""
        return math.log((self.laws.hypotheses + 1) * self.horizon)

    def predict(self, weights: Floats) -> Floats:
        """p̂: the weighted mixture after h_t, gathered from cells to labels (line 6), shape [M]."""
        mixed = weights @ self.laws.probabilities
        uniform = self.cells / self.total
        return np.asarray((1 - 1 / self.horizon) * mixed + uniform / self.horizon)
