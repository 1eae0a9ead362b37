"""The design effect: how much more counts vary because records of one client hang together.

It is the variance of clients' sums over that of as many independent records. One check's is noisy,
the more so where its witness sees little; recent checks together tell it better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_DOUBT, _SHARPNESS = 3.0, 4
"""Standard deviations of its noise at which half of an excess counts, and how soon less of it does:
at one deviation 1 %, at five 90 %."""


@dataclass(frozen=True)
class Spread:
    """How far the sums of a check's clients spread. Public."""

    # Their variance over that of as many independent records; by noise, it may be below 0
    ratio: float
    noise: float  # Standard deviation of the noise in it


def design_effect(spreads: Sequence[Spread], most: float) -> float:
    """Estimate the design effect from checks, each by the weight of its noise.

    What is above 1 counts in full where it stands far above the noise, and hardly where it does
    not: a witness that sees nothing has little spread, and all of it is noise.
    """
    ratio = np.array([spread.ratio for spread in spreads])
    noise = np.array([spread.noise for spread in spreads])
    weight = 1 / (1 + noise**2)
    above = max(float(weight @ ratio / weight.sum()) - 1, 0.0)
    if not above > 0:
        return 1.0
    doubt = _DOUBT * math.sqrt(float(weight**2 @ noise**2)) / float(weight.sum()) / above
    return min(1 + above / (1 + doubt**_SHARPNESS), max(most, 1.0))
