"""What a check decided, and on which grounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a check: drift, no drift, quiet, or inconclusive."""

    DRIFT = "drift"
    NO_DRIFT = "no drift"
    QUIET = "quiet"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class OperatingCharacteristic:
    """How often the alarm is false."""

    rate: float  # Probability of any false alarm in `horizon` checks, at most
    horizon: int  # Number of checks in the alarm's horizon
    by_evidence: float = 0.0  # Part of the rate that is for evidence over checks, if it adds up
    # Checks between two false alarms by evidence, on average at least; None if none adds up
    between_false_alarms: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The decision of one check. Everything in it is public.

    Parameters
    ----------
    outcome : Outcome
        Drift beyond the threshold; no drift beyond threshold and resolution, whatever its shape;
        quiet, if nothing was found and drifts of the usual shapes from `seen_from` on would have
        been seen; or none of these.
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
        Confidence of both limits. The lower bounds of a table's columns hold all at once with it.
    interval : tuple[float, float] or None
        Lower bound and upper limit, in nats, each with probability `level` (asymptotic).
    interval_note : str or None
        Why there is none.
    evidence, alarm_at : float or None
        Evidence for drift added up over checks, and where it alarms; None for a single check.
    outside_lower, outside_upper : float or None
        Confidence limits, each with probability `level`: at least, at most this fraction of the
        records lies outside the reference. None if there are none, or nothing can lie there.
    outside_tolerated : float or None
        Fraction of them that the operator tolerates.
    population : str or None
        Whose divergence the decision is about, in words. None if nothing was bounded.
    resolution : float or None
        Nats beyond the threshold that "no drift" allows. None if nothing was bounded.
    seen_from : float or None
        Of a quiet check: D_θ from which on its estimate is above the threshold with probability
        0.8, whichever usual shape a drift has, in nats, by forecast.
    by_one_client : bool or None
        Whether one client alone could have made this verdict: its records, with any other values,
        could make a drift out of what is tolerated, or hide one. None if nobody knows how many
        records a client holds.
    alarm : OperatingCharacteristic or None
        How often the alarm is false; None if nothing was bounded.
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
    resolution: float | None = None
    seen_from: float | None = None
    by_one_client: bool | None = None
    alarm: OperatingCharacteristic | None = None
