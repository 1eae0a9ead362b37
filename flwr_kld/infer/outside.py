"""Estimates the fraction of records where the reference has no mass, with its limits.

`_CLEAR` was chosen: a kind is named from so many standard deviations on. Under the normal law 2 %
of kinds that nobody has are named; 16 % if it is halved, .003 % if it is doubled. `_MOST_NAMES` is
for lack of space; `_ERRORS` and `_CLOSE` end a search for a p-value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.common.search import edge
from flwr_kld.infer.fraction_interval import group_intervals


@dataclass(frozen=True)
class OutsideLimits:
    """Confidence limits of q, the fraction of records outside the reference."""

    # In [0, 1]: q is at least, at most this, each with the alarm's level over cohorts and noise
    lower: float
    upper: float
    tolerated: float  # Fraction that is tolerated, or may be chance in the reference, in [0, 1)


def outside_by_counts(
    counts: NoisyCounts, tolerated: float, *, level: float
) -> tuple[OutsideLimits | None, float]:
    """Limit q of these clients' own records by all counts; with a p-value of what is tolerated."""
    outside = counts.plan.outside
    if not outside.any():
        return None, 1.0

    def limits(log_error: float) -> tuple[float, float]:
        level = 1 - 2 * math.exp(log_error)  # of both ends together
        ends = group_intervals(counts, outside[None, :], level=level)
        return float(ends[0][0]), float(ends[1][0])

    def above(log_error: float) -> bool:
        return limits(log_error)[0] > tolerated

    lower, upper = limits(math.log(1 - level))
    largest, least = _ERRORS
    log_p = edge(above, largest, least, within=_CLOSE) if above(largest) else largest
    return OutsideLimits(lower, upper, tolerated), math.exp(log_p)


_ERRORS, _CLOSE = (math.log(0.5), math.log(1e-15)), 1e-3
_CLEAR = 2.0
_MOST_NAMES = 3


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

    @property
    def clear(self) -> list[str]:
        """Names of those that are there beyond the noise."""
        return [kind.name for kind in self.kinds if kind.share > _CLEAR * kind.deviation]

    @property
    def named(self) -> list[str]:
        """As many of these as a line has room for."""
        return self.clear[:_MOST_NAMES]

    def __str__(self) -> str:
        return ", ".join([percent(self.share, self.deviation), *self.named])


def percent(share: float, deviation: float) -> str:
    """Write a fraction with its standard deviation, such as ``"27 % ± 1 %"``."""
    size = 100 * deviation
    digits = min(max(-math.floor(math.log10(size)), 0), 3) if size > 0 else 0
    return f"{100 * share:.{digits}f} % ± {size:.{digits}f} %"
