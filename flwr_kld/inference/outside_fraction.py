"""The fraction of records where the reference has no mass, as a report says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

_CLEAR = 2.0
"""Standard deviations from which on a kind is named."""
_NAMED = 3


@dataclass(frozen=True)
class OutsideCell:
    """Records outside the reference that are alike."""

    name: str  # In the domain's words, such as ``"'other' in job"``
    share: float  # Estimated fraction of all records, in [0, 1], and its standard deviation
    deviation: float


@dataclass(frozen=True)
class OutsideFraction:
    """Records where the reference has no mass: 'other', 'missing', or never seen before. Public."""

    # Estimated fraction of all records, in [0, 1], and its standard deviation, from sampling and
    # noise
    share: float
    deviation: float
    kinds: tuple[OutsideCell, ...]  # What they are, most frequent first

    def __str__(self) -> str:
        named = [k.name for k in self.kinds if k.share > _CLEAR * k.deviation][:_NAMED]
        return ", ".join([percent(self.share, self.deviation), *named])


def percent(share: float, deviation: float) -> str:
    """Write a fraction with its standard deviation, such as ``"27 % ± 1 %"``."""
    size = 100 * deviation
    digits = min(max(-math.floor(math.log10(size)), 0), 3) if size > 0 else 0
    return f"{100 * share:.{digits}f} % ± {size:.{digits}f} %"
