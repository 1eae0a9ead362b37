"""The K candidate laws of a label in one context, as one public table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Laws:
    """K distributions over M labels. Public; equal when their numbers are."""

    probabilities: Floats  # Shape [K, M], K >= 2 and M >= 2, non-negative, rows summing to 1

    def __post_init__(self) -> None:
        table = np.array(self.probabilities, dtype=np.float64)
        if table.ndim != 2 or min(table.shape) < 2:
            raise ValueError("candidate laws need shape [K, M] with at least 2 laws and 2 labels")
        if not np.isfinite(table).all() or (table < 0).any():
            raise ValueError("candidate laws must be finite and non-negative")
        if (np.abs(table.sum(axis=1) - 1) > _ROUNDING).any():
            raise ValueError("each candidate law must sum to 1")
        table.setflags(write=False)
        object.__setattr__(self, "probabilities", table)

    @property
    def hypotheses(self) -> int:
        """K."""
        return int(self.probabilities.shape[0])

    @property
    def labels(self) -> int:
        """M."""
        return int(self.probabilities.shape[1])

    @cached_property
    def mean(self) -> Floats:
        """The uniform mixture, shape [M]."""
        return np.asarray(self.probabilities.mean(axis=0))

    @cached_property
    def distances(self) -> Floats:
        """Total variation between any two laws, shape [K, K]."""
        laws = self.probabilities
        return np.array([np.abs(law - laws).sum(axis=1) / 2 for law in laws])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of shape and numbers."""
        digest = hashlib.sha256(f"flwr-kld laws {self.probabilities.shape}\n".encode())
        digest.update(self.probabilities.astype("<f8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Laws) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Laws(hypotheses={self.hypotheses}, labels={self.labels})"
