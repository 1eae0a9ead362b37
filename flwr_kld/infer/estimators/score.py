"""The score whose Π-average is the skewed divergence D_θ = KL(Π || (1 - θ) P + θ Π).

`THETA` is a definition, and printed beside each number. Where two of 50 equally frequent labels
vanish, D_θ is .145 nats; .173 if it is halved, .118 if it is doubled.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import finite

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", np.float64, np.int64)

THETA = 0.01
"""θ of D_θ: the fraction of the reference that is mixed into the clients' law. D_θ is then finite,
and at most ln(1/θ) = 4.6 nats."""

_BLOCK = 1 << 17  # Not tuned: so many numbers fit a processor's cache, about
_NOTHING = -600.0  # Not tuned: floats underflow below e^-708


def check_theta(theta: float) -> float:
    """Return θ as Python's number; ValueError unless it is in [0, 1)."""
    return finite("theta", theta, least=0, below=1)


def check_level(level: float) -> float:
    """Return a confidence as Python's number; ValueError unless it is in [0.5, 1)."""
    return finite("level", level, least=0.5, below=1)


def check_threshold(threshold: float) -> float:
    """Return a threshold as Python's number; ValueError unless it is ≥ 0 and D_θ can exceed it."""
    threshold, most = finite("threshold", threshold, least=0, unit="nats"), score_ceiling(THETA)
    if threshold >= most:
        raise ValueError(
            f"threshold={threshold:g} nats would find nothing: no divergence is above {most:.3g}"
        )
    return threshold


def score(ratio: Floats, theta: float) -> Floats:
    """``φ(r) = -ln((1 - θ) r + θ)`` in nats, at ``r = P / Π >= 0``; infinite at r = θ = 0."""
    with np.errstate(divide="ignore"):
        return -np.log((1 - theta) * ratio + theta)


def score_ceiling(theta: float) -> float:
    """``φ(0) = ln(1 / θ)`` in nats, the most that any symbol can score; infinite at θ = 0."""
    return -math.log(theta) if theta else math.inf


def score_slope(ratio: Floats, theta: float) -> Floats:
    """``dφ/dr`` in nats, at r > 0 (or θ > 0)."""
    return -(1 - theta) / ((1 - theta) * ratio + theta)


def in_blocks(rows: NDArray[_Number], numbers: int) -> list[NDArray[_Number]]:
    """Split rows, of so many numbers each, into blocks that are computed together."""
    blocks = 1 + len(rows) * numbers // _BLOCK
    return np.array_split(rows, max(1, min(blocks, len(rows))))


def exp(x: Floats) -> Floats:
    """Return e^x in the place of x, and e^-600 below that: underflow takes processors very long."""
    return np.exp(np.maximum(x, _NOTHING, out=x), out=x)
