"""What each round of boosting does, and what Theorems 6 and 7, mended, promise of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flwr_kld.integral.base import Floats
from flwr_kld.integral.boosting import LN_2, Learner, boost


@dataclass(frozen=True)
class Round:
    """What one round did, on its own points."""

    step: float  # θ_t
    reach: float  # c*_t, the largest absolute value of the clamped classifier
    target_edge: float  # γ_P and γ_Q
    model_edge: float
    drop: float  # KL(P || Q_{t-1}) - KL(P || Q_t), in nats

    @property
    def bound(self) -> float:
        """What Theorem 6, mended, promises of the drop."""
        return round_bound(self.step, self.reach, self.target_edge, self.model_edge)


def rounds_of(
    target: Floats,
    base: Floats,
    learner: Learner,
    steps: Sequence[float],
    *,
    clamp: float = LN_2,
    features: Floats | None = None,
) -> list[Round]:
    """Boost, and say what each round did."""
    found: list[Round] = []
    seen: list[tuple[Floats, Floats]] = []
    if features is None:
        features = np.arange(len(base), dtype=float)[:, None]

    def watched(features: Floats, target: Floats, model: Floats, records: int) -> Floats:
        values = np.clip(learner(features, target, model, records), -clamp, clamp)
        seen.append((model, values))
        return values

    boost(features, target, base, 1000, steps, clamp=clamp, learner=watched)
    for step, (model, values) in zip(steps, seen, strict=True):
        reach = float(np.abs(values).max())
        mean_target, mean_model = float(target @ values), float(model @ values)
        drop = step * mean_target - math.log(float(model @ np.exp(step * values)))
        scale = reach or 1.0
        found.append(Round(step, reach, mean_target / scale, -mean_model / scale, drop))
    return found


def round_bound(step: float, reach: float, target_edge: float, model_edge: float) -> float:
    """Theorem 6 in either regime: E e^(θc) is largest where c is ±c*."""
    tilt = step * reach
    return tilt * target_edge - math.log(math.cosh(tilt) - model_edge * math.sinh(tilt))


def total_bound(
    epsilon: float, rounds: int, reach: float, target_edge: float, model_edge: float
) -> float:
    """Theorem 7, if every round has these edges; with c* = ln 2 the logarithm is -Γ(γ_Q)."""
    ratio = epsilon / (epsilon + 4 * math.log(2))
    each = reach * target_edge - math.log(math.cosh(reach) - model_edge * math.sinh(reach))
    return epsilon / (4 * math.log(2)) * (1 - ratio**rounds) * each
