"""Upper confidence limit of a ratio of two means, from few groups and without their variance.

Fieller (1954) for the ratio; Student for the unknown variance; Hall (1992) for the skewness that
heavy clients and rare symbols leave in the groups' sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtrit

from flwr_kld.inference.estimators.score import Floats

_NO_SIZE = 2.0**-20
"""Share of the size's square below which nothing is known of the ratio."""
_SLACK = 2.0**-30
"""Far above the float64 rounding of the root, whose condition `_NO_SIZE` bounds."""


@dataclass(frozen=True)
class RatioLimit:
    """A ratio as the groups have it.

    Parameters
    ----------
    point : float
        ``Σ value / Σ size``; nan if the size is not positive.
    deviation : float
        Standard error of `point`.
    upper : float
        One-sided limit; inf where the groups tell nothing.
    """

    point: float
    deviation: float
    upper: float


def ratio_limit(value: Floats, size: Floats, level: float) -> RatioLimit:
    """Limit the ratio ``μ = E[value] / E[size]`` from above.

    At the true μ, ``X_j = μ size_j - value_j`` has mean 0. The limit is the largest μ that a
    one-sided t-test of the X_j does not reject, at a critical value raised for their skewness.

    Parameters
    ----------
    value, size : Floats
        Sums of J independent groups, shape [J], J >= 2.
    level : float
        Confidence, in [0.5, 1).
    """
    groups = len(value)
    mean_value, mean_size = float(value.mean()), float(size.mean())
    if not mean_size > 0:
        return RatioLimit(math.nan, math.inf, math.inf)
    point = mean_value / mean_size
    excess = point * size - value
    excess -= excess.mean()
    deviation = math.sqrt(float(excess @ excess) / (groups * (groups - 1))) / mean_size
    critical = _critical(excess, level)
    # The largest root of (μ n - v)² = critical² (μ² s_nn - 2 μ s_nv + s_vv), with means n and v.
    scale = critical**2 / (groups * (groups - 1))
    s_nn = scale * float(((size - mean_size) ** 2).sum())
    s_nv = scale * float(((size - mean_size) * (value - mean_value)).sum())
    s_vv = scale * float(((value - mean_value) ** 2).sum())
    a = mean_size**2 - s_nn
    if a <= _NO_SIZE * mean_size**2:
        return RatioLimit(point, deviation, math.inf)
    b, c = mean_size * mean_value - s_nv, mean_value**2 - s_vv
    upper = (b + math.sqrt(max(b * b - a * c, 0.0))) / a
    return RatioLimit(point, deviation, upper + _SLACK * (1 + abs(upper)))


def _critical(excess: Floats, level: float) -> float:
    """Student's quantile, plus Hall's term ``γ (2 t² + 1) / 6`` for a skewness γ of the mean.

    Only the direction in which Student alone covers too little is corrected: sums of f, whose long
    tail is above, leave one in the excess below 0.

    Parameters
    ----------
    excess : Floats
        Shape [J], of mean 0.
    """
    groups = len(excess)
    quantile = float(stdtrit(groups - 1, level))
    spread = math.sqrt(float(excess @ excess) / groups)
    if groups < 3 or spread == 0:
        return quantile
    skewness = float(((excess / spread) ** 3).mean())
    skewness *= math.sqrt(groups * (groups - 1)) / (groups - 2)  # of a group, unbiased for normals
    of_mean = max(-skewness, 0.0) / math.sqrt(groups)
    return quantile + of_mean * (2 * quantile**2 + 1) / 6
