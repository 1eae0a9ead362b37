"""Limits of the fraction of records that lie where the reference has no mass.

D_θ alone cannot see what such records are: its terms there are 0. If a fraction q of P lies where
Π is 0, ``KL(Π || P) >= -ln(1 - q)``, so a tolerated divergence of τ nats tolerates ``1 - e^-τ``.
Proof note: ``docs/proofs/outside-fraction.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.score import check_level
from flwr_kld.inference.score_sum import ScoreSum, crossing
from flwr_kld.inference.witness import Witness
from flwr_kld.query.noisy import ClientSums


@dataclass(frozen=True)
class OutsideLimits:
    """Confidence limits of q, the fraction of records outside the reference."""

    # In [0, 1]: q is at least, at most this, each with probability `level` over cohorts and noise
    lower: float
    upper: float
    point: float  # The second half's own fraction, in [0, 1]
    level: float  # Confidence, one-sided


def outside_limits(
    witness: Witness, sums: ClientSums, *, level: float = 0.95
) -> OutsideLimits | None:
    """Limit q, the fraction of records outside the reference, from both sides.

    None if the reference has mass everywhere. The population, parameters and errors are those of
    `lower_confidence_bound`; asymptotic likewise.
    """
    check_level(level)
    outside = witness.plan.outside
    if not outside.any():
        return None
    witness.hold(sums)
    scores = np.array(witness.scores.outside)
    down, span = -float(scores[~outside].max()), float(np.ptp(scores))
    if not span > 0:
        return OutsideLimits(0.0, 1.0, 0.0, level)
    q = float(witness.share[outside].sum())
    score = ScoreSum(sums, "outside", span**2 * max(q * (1 - q), 1 / sums.records))
    # A record's score is span · (1 where it is outside) - down, so its mean is span · q - down.
    point = (score.value / sums.records + down) / span
    deviation = score.deviation / sums.records / span
    upper = crossing(
        lambda share: score.p_value(down - span * share, above=False),
        0.0,
        1.0,
        1 - level,
        middle=point,
        deviation=deviation,
    )
    lower = 1 - crossing(
        lambda inside: score.p_value(down - span * (1 - inside)),
        0.0,
        1.0,
        1 - level,
        middle=1 - point,
        deviation=deviation,
    )
    return OutsideLimits(lower, upper, min(max(point, 0.0), 1.0), level)
