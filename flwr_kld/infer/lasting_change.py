"""Estimates when a standing session's counts changed for good: generalised least squares.

The noise of nights is correlated: a lasting change is known at once as precisely as under
independent noise after months. Estimates promise nothing.

`_CHANCE`, of a change that is reported where there is none, is such that any of 730 would be once
in 2,000 sessions. A change of 60 in two of 20 counts is found after 3 nights (median of 12); after
5 if it is halved, 3 if it is doubled. No night of 192 before the change reports one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.kernel.continual import Continual

_CHANCE = 5.7e-7


@dataclass(frozen=True)
class LastingChange:
    """A change of some counts, which ones being unknown."""

    since: int  # The first night with it, from 1
    at_once: bool  # Or more each night


def lasting_change(
    counts: NDArray[np.float64], stream: Continual, noise: float
) -> LastingChange | None:
    """Return the likeliest change of counts, shape [nights, cells]; None if none is clear.

    `noise` is the standard deviation of a count on the last night.
    """
    nights, cells = counts.shape
    if nights < 2:
        return None
    coefficients = np.array(stream.coefficients[:nights], dtype=float)
    weights = stream.weights(nights)
    deviation = noise / math.sqrt(float(weights @ weights))
    lags = np.subtract.outer(np.arange(nights), np.arange(nights))
    # Independent errors of this deviation: what is hidden, and what each change adds to it.
    hidden = np.where(lags < 0, 0, coefficients[lags]) @ np.diff(counts, axis=0, prepend=0)
    first = coefficients / np.linalg.norm(coefficients)
    hidden -= np.outer(first, first @ hidden)
    best, found = float(scipy.special.chdtri(cells, _CHANCE)), None
    for at_once, shape in ((True, coefficients), (False, np.cumsum(coefficients))):
        columns = np.where(lags[:, 1:] < 0, 0, shape[lags[:, 1:]])
        columns -= np.outer(first, first @ columns)
        scores = (columns.T @ hidden) / (deviation * np.linalg.norm(columns, axis=0)[:, None])
        clear = (scores**2).sum(axis=1)  # Chi-squared, of as many degrees as there are cells
        if clear.max() > best:
            best, found = float(clear.max()), LastingChange(2 + int(clear.argmax()), at_once)
    return found
