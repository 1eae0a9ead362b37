"""The decision of one check: drift, no drift, or inconclusive and what would resolve it.

Drift is said only on a lower confidence bound: one check's of the divergence or of the share
of records outside the reference, or evidence added up over checks. The point estimate never alarms.
Proof notes: ``docs/proofs/lower-bound.md``, ``docs/proofs/outside-share.md``,
``docs/proofs/e-detector.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from flwr_kld.inference.e_detector import Standing
from flwr_kld.inference.interval import Interval, NoInterval
from flwr_kld.inference.lower_bound import LowerBound
from flwr_kld.inference.outside import OutsideLimits
from flwr_kld.inference.outside_share import OutsideShare
from flwr_kld.inference.power import Power, errors_for_one_check
from flwr_kld.inference.verdict import Outcome, Verdict

POWER = 0.8
"""With which a check that says "no drift" would have found a drift of its resolution."""
_FACTORS = (1.5, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)
"""Of records or epsilon that are proposed."""
_NOISE = 2.0
"""Standard deviations within which a share is taken for noise around 0."""


@dataclass(frozen=True)
class Outside:
    """The second thing that a check decides on: q, the share of records outside the reference.

    Parameters
    ----------
    limits, at_once : OutsideLimits or None
        As reports show them, and at the level at which a single check alarms; None if nothing can
        lie outside.
    tolerated : float
        Share of them that is tolerated, in [0, 1).
    excluded : float
        Share that "no drift" has to exclude.
    """

    limits: OutsideLimits | None
    at_once: OutsideLimits | None
    tolerated: float
    excluded: float


def decide(
    bound: LowerBound,
    at_once: LowerBound,
    interval: Interval | NoInterval,
    standing: Standing,
    power: Power,
    outside: Outside,
    *,
    threshold: float,
    resolution: float,
    population: str,
) -> Verdict:
    """Decide a check.

    Parameters
    ----------
    bound : LowerBound
        Of the second half, as reports show it.
    at_once : LowerBound
        The same at the higher level at which a single check alarms.
    interval : Interval or NoInterval
        Two-sided, or why there is none.
    standing : Standing
        Evidence over checks, this one included.
    power : Power
        What checks like this one find.
    outside : Outside
        The share of records outside the reference, and what is tolerated of it.
    threshold : float
        Nats of D_θ that are tolerated.
    resolution : float
        Nats beyond it that "no drift" has to exclude, with power `POWER`.
    population : str
        Whose divergence the second half tells of.

    Returns
    -------
    Verdict
        A false "drift" has probability at most ``1 - at_once.level`` in each check for the
        divergence and as much for the share outside, and the detector's rate over its horizon.
    """
    outcome, reason, resolve = found_drift(bound, at_once, standing, outside, threshold) or _none(
        bound, interval, power, threshold, threshold + resolution
    )
    if outcome is Outcome.NO_DRIFT:
        outcome, reason, resolve = with_outside(reason, outside)
    limits = outside.limits
    return Verdict(
        outcome=outcome,
        reason=f"{reason}; this is about {population}",
        resolve=resolve,
        threshold=threshold,
        lower_bound=bound.lower,
        level=bound.level,
        interval=(interval.lower, interval.upper) if isinstance(interval, Interval) else None,
        interval_note=interval.reason if isinstance(interval, NoInterval) else None,
        evidence=standing.evidence,
        alarm_at=standing.alarm_at,
        population=population,
        outside_lower=None if limits is None else limits.lower,
        outside_upper=None if limits is None else limits.upper,
        outside_tolerated=outside.tolerated,
    )


def unmeasured(threshold: float, level: float, why: str) -> Verdict:
    """Return the verdict of a check whose second half gave nothing."""
    return Verdict(
        Outcome.INCONCLUSIVE,
        f"the second half of the cohort gave no bound: {why}",
        "the next check, with more clients connected",
        threshold=threshold,
        lower_bound=None,
        level=level,
        interval_note="no bound",
    )


def contradicted(threshold: float, level: float, why: str) -> Verdict:
    """Return the verdict of a check whose numbers cannot all be true: it decides nothing."""
    return Verdict(
        Outcome.INCONCLUSIVE,
        f"the published numbers contradict each other: {why}",
        "finding the client that reports what it cannot have: a plain or sealed sum with "
        "most_records= leaves it out",
        threshold=threshold,
        lower_bound=None,
        level=level,
        interval_note="the numbers contradict each other",
    )


def hold_to_estimates(
    verdict: Verdict, estimate: float | None, excluded: float, outside: OutsideShare | None
) -> Verdict:
    """Take "no drift" back beside an estimate above what it excludes, or a share not tolerated.

    Parameters
    ----------
    estimate : float or None
        Of the first half, in nats.
    excluded : float
        Nats that "no drift" says would have been found.
    outside : OutsideShare or None
        Of the first half.
    """
    if verdict.outcome is not Outcome.NO_DRIFT:
        return verdict
    if estimate is not None and estimate > excluded:
        above = (
            f"the estimate of {estimate:.3f} nats is above the {excluded:.3g} that the bound "
            "excludes"
        )
    elif outside is not None and _above(outside, verdict.outside_tolerated or 0.0):
        above = f"the share of records outside the reference is above what is tolerated: {outside}"
    else:
        return verdict
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        reason=f"{above}: {verdict.reason}",
        resolve="more records or fewer cells, if it is chance; otherwise the clients' records",
    )


def _above(outside: OutsideShare, tolerated: float) -> bool:
    """Whether an estimated share is more than what is tolerated, and more than noise around 0."""
    return outside.share > max(tolerated, _NOISE * outside.deviation)


_Found = tuple[Outcome, str, str | None]


class Bound(Protocol):
    """A lower confidence bound of D_θ, in nats."""

    @property
    def lower(self) -> float:
        """D_θ is at least this."""
        ...

    @property
    def level(self) -> float:
        """With this probability."""
        ...


def found_drift(
    bound: Bound,
    at_once: Bound,
    standing: Standing,
    outside: Outside,
    threshold: float,
) -> _Found | None:
    """Return what is too much, first what alarms."""
    if at_once.lower > threshold:
        reason = (
            f"the divergence is above {threshold:g} nats: the bound by which single checks "
            f"alarm errs with probability {1 - at_once.level:.1g} and is {at_once.lower:.3f} nats"
        )
        return Outcome.DRIFT, reason, None
    tolerated = f"{100 * outside.tolerated:.3g} %"
    if outside.at_once is not None and outside.at_once.lower > outside.tolerated:
        reason = (
            f"more records are outside the reference than the tolerated {tolerated}: "
            "the bound by which single checks alarm errs with probability "
            f"{1 - outside.at_once.level:.1g} and is {100 * outside.at_once.lower:.3g} %"
        )
        return Outcome.DRIFT, reason, None
    if standing.alarmed:
        reason = (
            f"evidence of {standing.checks} checks for a divergence above {threshold:g} nats "
            f"reached {standing.evidence:.3g}; by chance it reaches {standing.alarm_at:g} at the "
            "stated rate only"
        )
        return Outcome.DRIFT, reason, None
    if bound.lower > threshold:
        reason = (
            f"the divergence is at least {bound.lower:.3f} nats, above {threshold:g}, but only "
            f"with confidence {100 * bound.level:g} %; evidence over checks stands at "
            f"{standing.evidence:.2g} of {standing.alarm_at:.3g}"
        )
        return Outcome.INCONCLUSIVE, reason, "the next checks, if it is a drift"
    if outside.limits is not None and outside.limits.lower > outside.tolerated:
        reason = (
            f"at least {100 * outside.limits.lower:.3g} % of the records are outside the "
            f"reference, above {tolerated}, but only with confidence {100 * bound.level:g} %"
        )
        return Outcome.INCONCLUSIVE, reason, "more clients or records, or a larger epsilon"
    return None


def with_outside(reason: str, outside: Outside) -> _Found:
    """Return "no drift" if its share outside the reference is small enough, too."""
    if outside.limits is None:
        return Outcome.NO_DRIFT, reason, None
    most = f"{100 * outside.limits.upper:.3g} % of the records"
    if outside.limits.upper <= outside.excluded:
        return Outcome.NO_DRIFT, f"{reason}; at most {most} are outside the reference", None
    reason = (
        f"{reason}; but up to {most} may be outside the reference, not only the "
        f'{100 * outside.excluded:.3g} % that "no drift" allows'
    )
    return Outcome.INCONCLUSIVE, reason, "more clients or records, or a larger epsilon"


def _none(
    bound: LowerBound,
    interval: Interval | NoInterval,
    power: Power,
    threshold: float,
    excluded: float,
) -> _Found:
    """Return "no drift" if one of `excluded` nats would have been found."""
    if isinstance(interval, Interval) and interval.upper <= excluded:
        reason = f"the divergence is at most {interval.upper:.3f} nats"
        return Outcome.NO_DRIFT, reason, None
    errors = errors_for_one_check(bound.level, POWER, bound.groups)
    found = power.detectable(threshold, errors=errors)
    if found <= excluded:
        reason = (
            f"the lower bound, {max(bound.lower, 0.0):.3f} nats, is not above {threshold:g}; a "
            f"divergence of {found:.2g} nats would have been found with probability {POWER:g}"
        )
        return Outcome.NO_DRIFT, reason, None
    seen = "no divergence" if math.isinf(found) else f"only a divergence of {found:.2g} nats"
    reason = (
        f"the lower bound is not above {threshold:g} nats, but with probability {POWER:g} "
        f"{seen} would have been found, not one of {excluded:.2g}"
    )
    return Outcome.INCONCLUSIVE, reason, _resolve(power, threshold, excluded, errors)


def _resolve(power: Power, threshold: float, excluded: float, errors: float) -> str:
    """Say what would make a check find what is to be excluded."""
    more_records = [replace(power, records=k * power.records) for k in _FACTORS]
    less_noise = [replace(power, noise=power.noise / k**2) for k in _FACTORS]
    ways = []
    for what, settings in (("clients or records", more_records), ("epsilon", less_noise)):
        enough = [
            factor
            for factor, setting in zip(_FACTORS, settings, strict=True)
            if setting.detectable(threshold, errors=errors) <= excluded
        ]
        if enough:
            ways.append(f"{enough[0]:g} times the {what}")
    ways.append("fewer cells" if ways else "a larger resolution or threshold, or fewer cells")
    return " or ".join(ways)
