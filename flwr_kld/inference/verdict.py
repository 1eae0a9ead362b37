"""What a check decided, and on which grounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What an operator is told."""

    DRIFT = "drift"
    NO_DRIFT = "no drift"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """The decision of one check. Everything in it is public.

    Parameters
    ----------
    outcome : Outcome
        Drift beyond the threshold, none of the resolution beyond it, or neither.
    reason : str
        Why, in a sentence.
    resolve : str or None
        What would resolve an inconclusive check.
    threshold : float
        Nats that the operator tolerates.
    lower_bound : float or None
        Lower confidence bound: the divergence is at least this, with probability `level`, in nats.
        None if there is none.
    level : float
        Of the bound.
    interval : tuple[float, float] or None
        Lower bound and upper limit, in nats, each with probability `level` (asymptotic).
    interval_note : str or None
        Why there is none.
    evidence, alarm_at : float or None
        Evidence for drift added up over checks, and where it alarms; None for a single check.
    outside_lower, outside_upper : float or None
        Confidence limits, each with probability `level`: at least, at most this share of the
        records lies outside the reference. None if there are none, or nothing can lie there.
    outside_tolerated : float or None
        Share of them that the operator tolerates.
    population : str or None
        Whose divergence the decision is about: of those from whom the cohort's clients were drawn,
        or of these very clients. None if nothing was bounded.
    """

    outcome: Outcome
    reason: str
    resolve: str | None
    threshold: float
    lower_bound: float | None
    level: float
    interval: tuple[float, float] | None = None
    interval_note: str | None = None
    evidence: float | None = None
    alarm_at: float | None = None
    outside_lower: float | None = None
    outside_upper: float | None = None
    outside_tolerated: float | None = None
    population: str | None = None
