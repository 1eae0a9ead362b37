"""What a check that stands alone decides: limits from both sides, and the verdict."""

from __future__ import annotations

import math

from flwr_kld.check.decider import Alarm
from flwr_kld.inference.decision import Outside
from flwr_kld.inference.sums_bound import bound_from_sums, outside_from_sums
from flwr_kld.inference.sums_decision import decide_by_sums
from flwr_kld.inference.upper_limit import UpperLimit, upper_limit
from flwr_kld.inference.verdict import Verdict
from flwr_kld.inference.wealth import WealthDetector, log_evidence
from flwr_kld.simulations.studies.checks import Halves
from flwr_kld.simulations.studies.drifts import THETA


def limits(halves: Halves, level: float) -> tuple[float, UpperLimit]:
    """Limit D_θ from below, in nats, and from above."""
    bound = bound_from_sums(halves.witness, halves.sums, level=level)
    effect = bound.design_effect
    return bound.lower, upper_limit(halves.first, theta=THETA, level=level, design_effect=effect)


def verdict(halves: Halves, alarm: Alarm) -> Verdict:
    """Decide a check that stands alone."""
    witness, sums, at_once = halves.witness, halves.sums, alarm.level_at_once
    detector = WealthDetector(alarm.detector.rate, alarm.horizon)
    return decide_by_sums(
        bound_from_sums(witness, sums, level=alarm.level),
        bound_from_sums(witness, sums, level=at_once),
        limits(halves, alarm.level)[1],
        detector.update(log_evidence(sums)),
        Outside(
            outside_from_sums(witness, sums, level=alarm.level),
            outside_from_sums(witness, sums, level=at_once),
            0.0,
            1 - math.exp(-alarm.resolution),
        ),
        threshold=witness.deciding.threshold,
        resolution=alarm.resolution,
        population="those who were asked",
    )
