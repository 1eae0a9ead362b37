"""Limits of the share of records that lie where the reference has no mass.

D_θ alone cannot see what such records are: its terms there are 0. If a share q of P lies where Π is
0, ``KL(Π || P) >= -ln(1 - q)``, so a tolerated divergence of τ nats tolerates ``1 - e^-τ``.
Proof note: ``docs/proofs/outside-share.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.inference.ratio_limit import ratio_limit
from flwr_kld.inference.witness import Witness, check_level, in_groups

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts

_CLEAR = 5.0
"""Standard deviations of its noise that the size of the median group is above; below, the groups'
shares would be ratios of noise to noise."""
_NEARLY_EMPTY = 0.1
"""Part of the median group's size; the share of a smaller group is mostly noise."""


@dataclass(frozen=True)
class OutsideLimits:
    """Confidence limits of q, the share of records outside the reference.

    Parameters
    ----------
    lower, upper : float
        In [0, 1]: q is at least, at most this, each with probability `level` over cohorts and
        noise.
    point : float
        The second half's own share, in [0, 1].
    level : float
        Confidence, one-sided.
    """

    lower: float
    upper: float
    point: float
    level: float


def outside_limits(
    witness: Witness, noisy: NoisyCounts, *, level: float = 0.95
) -> OutsideLimits | None:
    """Limit q of the population from both sides; None if the reference has mass everywhere.

    Each group's share counts alike, however large the group is. The ratio of sums would be silent
    at high levels, because the sizes of hashed groups vary, and one heavy client could decide it.

    The parameters, and the population, are those of `lower_confidence_bound`.

    Raises
    ------
    ValueError
        If the level is out of range, or the counts are not those of the witness.
    """
    check_level(level)
    counts, outside = in_groups(noisy, len(witness.values)), witness.outside
    if not outside.any():
        return None
    size = counts.sum(axis=0).astype(np.float64)
    usual = float(np.median(size))
    if usual <= _CLEAR * math.sqrt(len(counts) * noisy.noise.variance):
        return OutsideLimits(0.0, 1.0, 0.0, level)
    full = size > _NEARLY_EMPTY * usual
    share = outside.astype(np.float64) @ counts[:, full] / size[full]
    alike = np.ones_like(share)
    upper = ratio_limit(share, alike, level).upper
    lower = 1 - ratio_limit(1 - share, alike, level).upper
    lower, point, upper = np.clip([lower, share.mean(), upper], 0.0, 1.0)
    return OutsideLimits(float(lower), float(upper), float(point), level)
