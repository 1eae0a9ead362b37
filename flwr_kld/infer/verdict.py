"""Verdicts: what a check decided, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.outside import OutsideLimits


class Outcome(StrEnum):
    """The outcome of a check: drift, no drift, no alarm, or inconclusive."""

    DRIFT = "drift"
    NO_DRIFT = "no drift"
    NO_ALARM = "no alarm"
    INCONCLUSIVE = "inconclusive"


class Cause(StrEnum):
    """What an outcome rests on."""

    DIVERGENCE = "divergence"  # Drift: the divergence of this check's records
    OUTSIDE = "outside"  # or the fraction of them outside the reference
    EVIDENCE = "evidence"  # or evidence that has added up over checks
    LIMITS = "limits"  # No drift: upper limits exclude one; inconclusive: they do not
    FORECAST = "forecast"  # No alarm: usual drifts would have been seen
    DRAW = "draw"  # Inconclusive: the clients moved, perhaps by chance of who was drawn
    NEAR = "near"  # or above the threshold, but not surely enough for an alarm
    OLD = "old"  # or too many records have changed since they were counted
    CONTRADICTION = "contradiction"  # or the published numbers contradict each other


@dataclass(frozen=True)
class Verdict:
    """The decision of one check. Everything in it is public.

    Parameters
    ----------
    outcome : Outcome
        Drift beyond the threshold; no drift beyond threshold and resolution, whatever its shape;
        no alarm, if nothing was found and drifts of the usual shapes from `seen_from` on would have
        been seen; or none of these.
    cause : Cause
        What it rests on.
    reason : str
        Why, in a sentence.
    resolve : str or None
        What would resolve an inconclusive check.
    threshold : float
        Nats that the operator tolerates.
    alarm : Alarm
        How often the alarm is false, the confidence of all limits, and how many nats beyond the
        threshold "no drift" allows.
    lower_bound : float or None
        Lower confidence bound: the divergence is at least this, with probability `alarm.level`, in
        nats. The lower bounds of a table's columns hold all at once with it. None if the numbers
        contradict each other.
    upper_limit : float or None
        Upper confidence limit, in nats, with the same probability (asymptotic).
    outside : OutsideLimits or None
        Confidence limits of the fraction of records outside the reference. None if the numbers
        contradict each other, or nothing can lie there.
    detector : EDetector or None
        Evidence for drift added up over checks, and where it alarms; None if none adds up.
    seen_from : float or None
        Of a check that says "no alarm": D_θ from which on its estimate is above the threshold with
        probability 0.8, whichever usual shape a drift has, in nats, by forecast.
    by_one_client : bool or None
        Whether one client alone could have made this verdict: its records, with any other values,
        could make a drift out of what is tolerated, or hide one. None if nobody checks a client's
        counts, or the verdict is inconclusive.
    """

    outcome: Outcome
    cause: Cause
    reason: str
    resolve: str | None
    threshold: float
    alarm: Alarm
    lower_bound: float | None = None
    upper_limit: float | None = None
    outside: OutsideLimits | None = None
    detector: EDetector | None = None
    seen_from: float | None = None
    by_one_client: bool | None = None

    @property
    def suspected(self) -> bool:
        """Whether it is inconclusive as something seems to have moved too far."""
        return self.cause in (Cause.DRAW, Cause.NEAR)
