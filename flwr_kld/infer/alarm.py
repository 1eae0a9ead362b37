"""The false-alarm rate of verdicts of drift, and what they tolerate.

`RESOLUTION` was chosen. "No drift" of 20 or 200 equally frequent symbols takes about 420 or 2,800
records at ε = 1; half the resolution takes 540 or 3,500, twice 330 or 2,300.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flwr_kld.infer.estimators.score import check_level
from flwr_kld.kernel.arguments import finite, integer, set_fields

RESOLUTION = 0.1
"""Nats beyond the threshold up to which "no drift" is reported, by default."""
Tolerated = tuple[float, float]
"""Nats of D_θ, and fraction of records outside the reference, that are tolerated."""


@dataclass(frozen=True)
class Alarm:
    """How sure a verdict of drift must be, and what it tolerates beside a threshold.

    Parameters
    ----------
    rate : float
        In (0, 0.5]: probability of any false alarm in `horizon` checks; asymptotic in the number of
        records.
    horizon : int
        365 for a year of daily checks; 1 for a check that stands alone.
    level : float
        One-sided confidence of the bound that a report shows, in [0.5, 1).
    resolution : float
        "No drift" is said only by a check whose upper limit, for drifts of every shape, is at most
        this many nats beyond the threshold.
    outside : float or Mapping[str, float], optional
        Fraction of the records, in [0, 1), that may lie where the reference has no mass ('other',
        'missing', never seen) before a check says drift; D_θ does not see them. By default
        ``1 - e^-threshold``: a larger one has a KL divergence above the threshold by itself.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    rate: float = 0.05
    horizon: int = 365
    level: float = 0.95
    resolution: float = RESOLUTION
    outside: float | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        set_fields(
            self,
            rate=finite("rate", self.rate, above=0, most=0.5),
            horizon=integer("horizon", self.horizon, least=1, unit="checks"),
            level=check_level(self.level),
            resolution=finite("resolution", self.resolution, above=0, unit="nats"),
        )
        tolerated = self.outside.values() if isinstance(self.outside, Mapping) else [self.outside]
        for share in tolerated:
            if share is not None:
                finite("outside", share, least=0, below=1)

    def shared(self, columns: int) -> Alarm:
        """Return the part of this alarm that each column of a table may use up (Bonferroni)."""
        return replace(self, rate=self.rate / columns, outside=None)

    def excluded(self, tolerated: float) -> float:
        """Fraction outside the reference that "no drift" has to exclude, if one is tolerated."""
        return 1 - (1 - tolerated) * math.exp(-self.resolution)

    def tolerated(self, thresholds: Mapping[str, float]) -> dict[str, Tolerated]:
        """Return what is tolerated in each column.

        Raises `ValueError` unless `outside` is of all columns, or of each of them.
        """
        own = self.outside
        if isinstance(own, Mapping):
            require_each("outside", own, thresholds)
        else:
            own = dict.fromkeys(thresholds, own) if own is not None else {}
        return {
            name: (nats, float(own.get(name, -math.expm1(-nats))))
            for name, nats in thresholds.items()
        }


def require_each(what: str, values: Mapping[str, float], columns: Mapping[str, object]) -> None:
    """Raise `ValueError` unless a mapping has a number for each column."""
    if set(values) != set(columns):
        raise ValueError(
            f"{what}= takes one number for all columns, or a mapping that names each of them"
        )
