"""The lower confidence bound: D_θ is at least this, whatever the witness, clients or noise.

    D_θ = KL(Π || (1 - θ) P + θ Π)  >=  Σ Π ln f - ln((1 - θ) E_P f + θ E_Π f)

for every f > 0 (Donsker and Varadhan 1983). f comes from one half of the cohort and is fixed when
the other half is asked; E_P f is limited from above by that half's groups.
Proof note: ``docs/proofs/lower-bound.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.inference.design_effect import DesignEffect, design_effect
from flwr_kld.inference.estimators.score import check_theta
from flwr_kld.inference.ratio_limit import ratio_limit
from flwr_kld.inference.witness import SLACK, Witness, check_level, in_groups

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts


@dataclass(frozen=True)
class LowerBound:
    """Lower confidence bound of D_θ from the second half, in nats.

    Parameters
    ----------
    lower : float
        D_θ is at least this with probability `level` over cohorts and noise. Below 0 it says
        nothing.
    point : float
        The witness's own reading, without the margin: no estimate of D_θ, but of what this witness
        sees of it.
    standard_error : float
        Of `point`: sampling, clustering in clients, and noise together.
    independent_error : float
        What it would be if records were independent and counts exact.
    level : float
        Confidence, one-sided.
    theta : float
        The θ of D_θ.
    groups : int
        Independent groups that the standard error rests on.
    records : float
        In the second half.
    design_effect : DesignEffect
        How much more its counts vary than those of independent records.
    """

    lower: float
    point: float
    standard_error: float
    independent_error: float
    level: float
    theta: float
    groups: int
    records: float
    design_effect: DesignEffect


def lower_confidence_bound(
    witness: Witness, noisy: NoisyCounts, *, theta: float, level: float = 0.95
) -> LowerBound:
    """Limit D_θ of the population from below.

    The population is the one that groups are independent draws from: of clients if whole clients
    were put into groups, of the records of these very clients if records were.

    Parameters
    ----------
    witness : Witness
        Learnt from records that are not in `noisy`.
    noisy : NoisyCounts
        Over `witness.query_plan()`, values of shape [levels * groups] in the order
        ``level * groups + group``; 3 groups or more.
    theta : float
        In [0, 1). At 0 the bound is one of plain KL.
    level : float
        One-sided confidence, in [0.5, 1).

    Raises
    ------
    ValueError
        If theta or level is out of range, or the counts are not those of the witness.
    """
    theta, level = check_theta(theta), check_level(level)
    counts, f = in_groups(noisy, len(witness.values)), witness.f
    limit = ratio_limit(f @ counts, counts.sum(axis=0).astype(np.float64), level)
    least, most = float(f.min()), float(f.max())

    def divergence(mean: float) -> float:
        """Right-hand side at ``E_P f = mean``, rounded downwards; f lies within its own range."""
        whole = (1 - theta) * min(max(mean, least), most) + theta * witness.reference_mean
        return witness.log_mean - math.log(whole * (1 + SLACK)) - SLACK

    point = most if math.isnan(limit.point) else min(max(limit.point, least), most)
    whole = (1 - theta) * point + theta * witness.reference_mean
    share = np.maximum(counts.sum(axis=1), 0) / max(int(counts.sum()), 1)
    spread = math.sqrt(float(share @ (f - point) ** 2) / noisy.records)
    return LowerBound(
        lower=divergence(limit.upper),
        point=divergence(point),
        standard_error=(1 - theta) * limit.deviation / whole,
        independent_error=(1 - theta) * spread / whole,
        level=level,
        theta=theta,
        groups=counts.shape[1],
        records=noisy.records,
        design_effect=design_effect(counts, noisy.noise.variance),
    )
