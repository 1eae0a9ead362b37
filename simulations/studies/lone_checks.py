"""What a check that stands alone decides: limits from both sides, and the verdict."""

from __future__ import annotations

from flwr_kld.check.decider import Alarm
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.decision import decide
from flwr_kld.inference.e_detector import EDetector
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.recent_checks import design_effect
from flwr_kld.inference.upper_limit import UpperLimit, upper_limit
from flwr_kld.inference.verdict import Verdict
from flwr_kld.simulations.studies.checks import Halves
from flwr_kld.simulations.studies.drifts import THETA


def limits(halves: Halves, level: float) -> tuple[float, UpperLimit]:
    """Limit D_θ from below, in nats, and from above."""
    bound = lower_confidence_bound(halves.witness, halves.sums, level=level)
    effect = design_effect([bound.spread], halves.witness.deciding.most_records)
    return bound.lower, upper_limit(halves.first, theta=THETA, level=level, design_effect=effect)


def verdict(halves: Halves, alarm: Alarm) -> Verdict:
    """Decide a check that stands alone."""
    witness, sums = halves.witness, halves.sums
    detector = EDetector(alarm.detector.rate, alarm.horizon)
    return decide(
        lower_confidence_bound(witness, sums, level=alarm.level),
        alarm.alone(witness, sums),
        limits(halves, alarm.level)[1],
        detector.update(log_evidence(witness, sums)),
        alarm.outside(witness, sums, 0.0),
        threshold=witness.deciding.threshold,
        resolution=alarm.resolution,
        level=alarm.level,
        population="those who were asked",
    )
