"""The lower confidence bound of D_θ from sums over clients.

    D_θ = KL(Π || (1 - θ) P + θ Π)  >=  Σ Π ln f - ln((1 - θ) E_P f + θ E_Π f)

for every f > 0 (Donsker and Varadhan 1983). f comes from one half of the cohort and is fixed when
the other half is asked; E_P f is limited from above by that half's sums.
Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.score import check_level
from flwr_kld.inference.score_sum import ScoreSum, crossing
from flwr_kld.inference.witness import Witness
from flwr_kld.query.noisy import ClientSums


@dataclass(frozen=True)
class LowerBound:
    """Lower confidence bound of D_θ, in nats."""

    # D_θ is at least this with the level's probability over clients and noise: for every law of
    # clients; or, where records are drawn, asymptotically. Below 0 it says nothing.
    lower: float
    # What was read, without the margin: no estimate of D_θ, but of what is seen of it
    point: float


def lower_confidence_bound(
    witness: Witness, sums: ClientSums, *, level: float = 0.95
) -> LowerBound:
    """Limit D_θ from below, of the population that clients are independent draws from."""
    level = check_level(level)
    score = divergence_sum(witness, sums, 1 - level)
    step, f, records = witness.step, witness.f, sums.records
    allowed = 1 + float(np.array(witness.scores.divergence)[0] - witness.below[0]) * step

    def p_value(mean: float) -> float:
        """Of ``E_P f >= mean``."""
        return score.p_value((mean - allowed) / step)

    lowest, highest, middle = float(f.min()), float(f.max()), allowed - score.value * step / records
    deviation = score.deviation * step / records
    most = crossing(p_value, lowest, highest, 1 - level, middle=middle, deviation=deviation)
    mean = min(max(middle, lowest), highest)
    return LowerBound(lower=witness.divergence(most), point=witness.divergence(mean))


def divergence_sum(witness: Witness, sums: ClientSums, level: float) -> ScoreSum:
    """Return the sum whose p-value is that of "D_θ is at most the threshold"."""
    witness.hold(sums)
    deciding = witness.deciding
    each = (witness.deviation / witness.step) ** 2 / deciding.records
    return ScoreSum(sums, "total", each, deciding.records / deciding.clients, level)
