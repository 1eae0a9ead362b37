"""Limits of the share of records that lie where the reference has no mass.

D_θ alone cannot see what such records are: its terms there are 0. If a share q of P lies where Π is
0, ``KL(Π || P) >= -ln(1 - q)``, so a tolerated divergence of τ nats tolerates ``1 - e^-τ``.
Proof note: ``docs/proofs/outside-share.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.bounds.ratio_limit import ratio_limit
from flwr_kld.bounds.witness import Witness, check_level, in_groups
from flwr_kld.estimate.score import Floats

if TYPE_CHECKING:
    from flwr_kld.counts import NoisyCounts
    from flwr_kld.privacy import NoiseTable

_RATES = np.geomspace(0.05, 50.0, 48)
"""Exponents that Chernoff's bound is minimised over."""
_STEPS = 1 << 10
"""Shares that are tried as a lower bound."""


@dataclass(frozen=True)
class OutsideLimits:
    """What the second half certifies of q, the share of records outside the reference.

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

    The parameters, and the population, are those of `certified_lower_bound`.

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
    found = outside.astype(np.float64) @ counts
    within = ratio_limit(size - found, size, (1 + level) / 2)
    without = ratio_limit(found, size, level)
    surely = _chernoff_limit(found, size, noisy.noise, (1 + level) / 2)
    lower, upper, point = np.clip([1 - within.upper, without.upper, without.point], 0.0, 1.0)
    return OutsideLimits(
        max(float(lower), surely), float(upper), float(np.nan_to_num(point)), level
    )


def _chernoff_limit(found: Floats, size: Floats, noise: NoiseTable, level: float) -> float:
    """Limit the mean share of groups from below, whatever its law is (Hoeffding 1963).

    A group's share s lies in [0, 1], so ``E e^(λ s) <= 1 - τ + τ e^λ`` if its mean is τ, and the
    noise has ``E e^(λ η / n)``. Few groups that differ much leave Student's limit nothing to say at
    high levels; this one finds gross shares then.

    Parameters
    ----------
    found, size : Floats
        Noisy counts of records outside, and of all, shape [groups].
    noise : NoiseTable
        In `found`.
    """
    full = size > 0
    if not full.any():
        return 0.0
    found, size = found[full], size[full]
    with np.errstate(over="ignore"):
        by_noise = np.array(
            [
                np.log(np.exp(np.outer(rate / size, noise.support)) @ noise.probabilities).sum()
                for rate in _RATES
            ]
        )
    shares = np.arange(1, _STEPS) / _STEPS
    of_shares = len(size) * np.log1p(shares[:, None] * np.expm1(_RATES))
    log_chance = (of_shares + by_noise - _RATES * float((found / size).sum())).min(axis=1)
    rejected = shares[log_chance <= np.log(1 - level)]
    return float(rejected.max(initial=0.0))
