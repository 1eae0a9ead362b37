"""Since when the counts of a standing session have changed for good: generalised least squares.

The noise of nights is correlated, so that a change which lasts is known at once as well as
independent noise would tell it after months. What is estimated promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.continual import Continual

_CLEAR = 5.0
"""Standard deviations from which on a change is told: any of 730 would be by chance once in 2,000
sessions."""


@dataclass(frozen=True)
class LastingChange:
    """A change of a sum of counts."""

    since: int  # The first night with it, from 1
    at_once: bool  # Or more each night
    size: float  # By the last night, in records
    deviation: float


def lasting_change(
    sums: NDArray[np.float64], stream: Continual, noise: float
) -> LastingChange | None:
    """Return the change that explains sums of counts on each night best; None if none is clear."""
    nights = len(sums)
    if nights < 2:
        return None
    coefficients = np.array(stream.coefficients[:nights], dtype=float)
    weights = stream.weights(nights)
    deviation = float(noise) / math.sqrt(float(weights @ weights))
    # Independent errors of this deviation: what is hidden, and what each change adds to it.
    hidden = np.convolve(coefficients, np.diff(sums, prepend=0.0))[:nights]
    first = coefficients / math.sqrt(float(coefficients @ coefficients))
    hidden -= first * float(first @ hidden)
    best, found = _CLEAR, None
    for at_once, shape in ((True, coefficients), (False, np.cumsum(coefficients))):
        for since in range(1, nights):
            column = np.concatenate([np.zeros(since), shape[: nights - since]])
            column -= first * float(first @ column)
            length = math.sqrt(float(column @ column))
            clear = abs(float(column @ hidden)) / length / deviation
            if clear > best:
                best, steps = clear, 1 if at_once else nights - since
                size = steps * float(column @ hidden) / length**2
                found = LastingChange(since + 1, at_once, size, steps * deviation / length)
    return found
