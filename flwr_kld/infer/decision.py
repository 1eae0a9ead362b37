"""Decides a check: drift, no drift, no alarm, or inconclusive and what would resolve it.

The counts of all clients that were asked decide. Drift is reported on what one check shows of these
clients, on evidence added up over checks, or on the fraction outside the reference; where the
clients were drawn from more, only if their population's estimate shows it as well, and no kind of
clients that the draw may have missed, or had too many or too few of, could explain it
(`Population`). "No drift" is reported only on an upper confidence limit, which holds for every law
that the domain can show. Where that is too wide, "no alarm" reports that nothing was found, and
that drifts of the usual shapes would have been seen in the estimate.

A table has drifted if any of d columns has: each uses up a d-th of the rate of false alarms
(Bonferroni), whatever the dependence between them. It has not if every column says so: a drifted
one hides with the probability of its own limit, however many there are.
Proof note: ``docs/proofs/decisions.md``.

Numbers that were chosen:

=============  ===============  ====================================================================
number         unit             meaning, and what another value does
=============  ===============  ====================================================================
ERRORS         standard errors  by which a population's number must exceed what is tolerated, at
                                least. At three, drawn cohorts of clustered clients raise false
                                alarms in more than one year of twenty; at five, half of the drifts
                                of .15 nats that 200 clients show are lost. Under the normal law,
                                four are exceeded in one check of 31,600, and three in one of 741
LIKELY         probability      with which a check that says "no alarm" would have seen a drift; at
                                .9, drifts must be farther above the threshold by half as many
                                errors again: 1.28 for .84
_NOISE         deviations       within which a fraction is taken for noise around 0, or an
                                inconclusive estimate for noise around what is tolerated: 2 % of
                                those that are so are not, under the normal law; 16 % if it is
                                halved
_ENOUGH        records          beyond so many times those of a check none are proposed, as chance
                                alone may look so: doubled, up to 200 times as many are
_MOST_CLIENTS  clients          that are proposed, at most: where a search ends
=============  ===============  ====================================================================
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import scipy

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.outside import OutsideFraction, OutsideLimits
from flwr_kld.infer.part_of_records import missed_part
from flwr_kld.infer.upper_limit import EPSILON, UpperLimit
from flwr_kld.infer.verdict import Cause, Outcome, Verdict

_ENOUGH = 100.0
ERRORS = 4.0
_MOST_CLIENTS = 1_000_000
_MORE = f"more clients, more records of each, or a larger {EPSILON}"
LIKELY = 0.8
_NOISE = 2.0


@dataclass(frozen=True)
class Population:
    """What drawn clients show of one number of the population that they were drawn from.

    Their own number may be chance of who was drawn: what is shown of the population must exceed its
    error, and remain whatever the clients would have said that the draw missed, and if it had too
    many of a kind.
    """

    clients: int  # That were drawn
    value: float  # Estimate of the number, and its standard error: draws, noise, the reference
    error: float
    tolerated: float
    level: float  # Of a false alarm of one check, in (0, 1)
    missed_level: float  # Probability of missing the largest part that counts, in (0, 1)
    # The least that the number can be if so many clients miss a kind, or have too many of one
    least: Callable[[int], float]
    # Whether the error counts what the largest client holds, rather than little over the mean
    sizes_known: bool = True

    @property
    def missed(self) -> float:
        """The part of the population that the draw may have missed, in (0, 1)."""
        return missed_part(self.clients, self.missed_level)

    @property
    def shown(self) -> bool:
        """Whether the population's number is above what is tolerated, not only these clients'."""
        return self._shown_by(self.clients)

    def _shown_by(self, clients: int) -> bool:
        errors = max(ERRORS, -float(scipy.special.ndtri(self.level))) * math.sqrt(
            self.clients / clients
        )
        if not self.value - errors * self.error > self.tolerated:
            return False
        return self.least(clients) > self.tolerated

    @property
    def unless(self) -> str:
        """Say which clients could still make it false."""
        most = f"more than {100 * self.missed:.2g} % of its clients or records"
        larger = "" if self.sizes_known else ", or a client holds far more records than the others"
        return f"unless the draw missed a kind with {most}{larger}"

    @property
    def resolve(self) -> str:
        """Say how many drawn clients would show it, if the estimate is right."""
        tried = range(self.clients, _MOST_CLIENTS)
        enough = bisect_left(tried, True, key=self._shown_by)
        if enough == len(tried):
            return "asking all clients, or drawing many more"
        digits = 10 ** max(len(str(tried[enough])) - 2, 0)
        many = -(-tried[enough] // digits) * digits
        return f"asking everyone, or drawing about {many:,} clients, if there are more"


@dataclass(frozen=True)
class Divergence:
    """The first thing a check decides on: D_θ of the records of the clients that were asked."""

    threshold: float  # Nats that are tolerated
    lower: float  # It is at least this, in nats, with the alarm's level
    upper: UpperLimit  # It is at most this
    p_value: float  # Of "D_θ is at most the threshold"
    population: Population | None = None  # That the clients were drawn from; None if all were asked


@dataclass(frozen=True)
class Outside:
    """The second thing a check decides on: q, the fraction of records outside the reference."""

    limits: OutsideLimits
    p_value: float  # Of "no more than is tolerated"
    population: Population | None = None  # That the clients were drawn from; None if all were asked


def decide(
    divergence: Divergence,
    outside: Outside | None,
    detector: EDetector | None,
    *,
    alarm: Alarm,
    level: float,
    about: str,
    seen_from: Callable[[], float | None] = lambda: None,
) -> Verdict:
    """Decide a check about the clients that were asked.

    `outside` is None if nothing can lie there. `detector` adds up evidence, None where none adds
    up. `level` is the p-value below which a single check alarms, and `seen_from` forecasts from
    which D_θ on the usual drifts would have been seen; None if not from threshold and resolution
    on.
    """
    seen, threshold, upper = None, divergence.threshold, divergence.upper
    lower = max(divergence.lower, 0.0)
    decided = _found(divergence, outside, detector, alarm, level)
    if decided is None:
        decided = _excluded(upper, threshold, alarm.resolution)
        if decided[0] is Outcome.INCONCLUSIVE:
            seen = seen_from()
        if seen is not None:
            whose = "the clients" if divergence.population is None else "the population"
            decided = _quiet(seen, threshold, whose)
    limits = None if outside is None else outside.limits
    if decided[0] in (Outcome.NO_DRIFT, Outcome.NO_ALARM) and limits is not None:
        decided = _with_outside(decided, limits, alarm)
    outcome, cause, reason, resolve = decided
    if cause is not Cause.DRAW:  # which names them
        reason = f"{reason}; this is about {about}"
    return Verdict(
        outcome=outcome,
        cause=cause,
        reason=reason,
        resolve=resolve,
        threshold=threshold,
        alarm=alarm,
        lower_bound=lower,
        upper_limit=max(upper.value, lower),
        outside=limits,
        detector=detector,
        seen_from=seen if outcome is Outcome.NO_ALARM else None,
    )


def contradicted(threshold: float, alarm: Alarm, why: str) -> Verdict:
    """Return the verdict of a check whose numbers cannot all be true: it decides nothing."""
    return Verdict(
        Outcome.INCONCLUSIVE,
        Cause.CONTRADICTION,
        f"the published numbers contradict each other: {why}",
        "finding the client that reports what it cannot have: a plain or sealed sum with "
        "most_records= leaves it out",
        threshold=threshold,
        alarm=alarm,
    )


def ranked(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the columns, first what drifted or may have, then by how much over the threshold."""
    order = [Outcome.DRIFT, Outcome.INCONCLUSIVE, Outcome.NO_ALARM, Outcome.NO_DRIFT]

    def place(name: str) -> tuple[int, bool, float, str]:
        verdict = verdicts[name]
        bound = -math.inf if verdict.lower_bound is None else verdict.lower_bound
        return order.index(verdict.outcome), not verdict.suspected, verdict.threshold - bound, name

    return sorted(verdicts, key=place)


def table_verdict(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict on all columns: that of the one that is ranked first."""
    name, *_ = ranked(verdicts)
    leading = verdicts[name]
    if leading.outcome is Outcome.NO_DRIFT:  # the largest upper limit holds for all of them
        name, leading = max(verdicts.items(), key=lambda one: one[1].upper_limit or 0.0)
    return replace(leading, reason=f"{name}: {leading.reason}")


def held_against_estimates(
    verdict: Verdict,
    population: float | None,
    cohort: float,
    outside: OutsideFraction | None,
    *,
    deviation: float = 0.0,
) -> Verdict:
    """Hold a verdict against the estimates: they may contradict it, or suspect a drift.

    "No drift" and "no alarm" become inconclusive if the population's estimate is above the
    threshold. The cohort's own is above 0 by chance, and must not be above what "no drift"
    excludes; nor the fraction outside above what is tolerated. Without an estimate of the
    population, nothing would have been seen in it. What "no drift" excludes and an estimate shows
    is suspected; otherwise data are wanting, unless an estimate is above what is tolerated by more
    than noise: that is suspected, too. `deviation` is that of the population's.
    """
    cleared = verdict.outcome in (Outcome.NO_DRIFT, Outcome.NO_ALARM)
    if not cleared and (verdict.outcome, verdict.cause) != (Outcome.INCONCLUSIVE, Cause.LIMITS):
        return verdict
    noise = 0.0 if cleared else _NOISE
    excluded = verdict.threshold + verdict.alarm.resolution
    if population is not None and population - noise * deviation > verdict.threshold:
        little = "a little " if round(population, 3) <= verdict.threshold else ""
        above = (
            f"the estimate of {population:.3f} nats is {little}above the {verdict.threshold:g} "
            "that are tolerated"
        )
    elif cleared and cohort > excluded:
        above = f"the estimate of {cohort:.3f} nats is above the {excluded:.3g} that are excluded"
    elif population is None and verdict.outcome is Outcome.NO_ALARM:
        above = "there is no estimate of the population"
    elif outside and verdict.outside and _above(outside, verdict.outside.tolerated, noise):
        above = f"the fraction of records outside the reference is above the tolerance: {outside}"
    else:
        return verdict
    suspected = (
        verdict.outcome is not Outcome.NO_ALARM
        or (population is not None and population - _NOISE * deviation > verdict.threshold)
        or (outside and verdict.outside and _above(outside, verdict.outside.tolerated, _NOISE))
    )
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        cause=Cause.NEAR if suspected else Cause.LIMITS,
        reason=f"{above}, which may be chance",
        resolve="more records or fewer cells, if it is chance; if not, a look at clients' records",
    )


def _above(outside: OutsideFraction, tolerated: float, noise: float) -> bool:
    """Whether an estimated fraction is above the tolerated one, and more than noise around 0."""
    above = outside.share - noise * outside.deviation > tolerated
    return above and outside.share > _NOISE * outside.deviation


_Found = tuple[Outcome, Cause, str, str | None]
"""Outcome, what it rests on, why in a sentence, and what would resolve it."""


def _found(
    divergence: Divergence,
    outside: Outside | None,
    detector: EDetector | None,
    alarm: Alarm,
    level: float,
) -> _Found | None:
    """Return what is too much, first what alarms."""
    threshold, by_chance = divergence.threshold, []
    shows: list[tuple[Divergence | Outside, Cause, str]] = [
        (divergence, Cause.DIVERGENCE, f"the divergence is above the tolerated {threshold:g} nats")
    ]
    if outside is not None:
        tolerated = f"{100 * outside.limits.tolerated:.3g} %"
        what = f"more records are outside the reference than the tolerated {tolerated}"
        shows.append((outside, Cause.OUTSIDE, what))
    for one, cause, what in shows:
        if one.p_value >= level:
            continue
        reason = f"this check alone shows that {what}"
        population = one.population
        if population is None:
            return Outcome.DRIFT, cause, reason, None
        if population.shown:
            reason = f"{reason}; true of the population {population.unless}"
            return Outcome.DRIFT, cause, reason, None
        by_chance.append((what, population))
    for what, population in by_chance:
        reason = (
            f"these {population.clients} clients differ from the reference ({what}), but it may be "
            "chance of who was drawn"
        )
        return Outcome.INCONCLUSIVE, Cause.DRAW, reason, population.resolve
    if detector is not None and detector.alarmed:
        reason = (
            f"the evidence of {detector.checks} checks for a divergence above {threshold:g} nats "
            f"has reached {detector.evidence:.3g}, and alarms from {detector.alarm_at:.3g} on"
        )
        return Outcome.DRIFT, Cause.EVIDENCE, reason, None
    if divergence.lower > threshold:
        reason = (
            f"the divergence is above {threshold:g} nats with confidence {100 * alarm.level:g} %"
            f"{_rarely(level)}"
        )
        return (
            Outcome.INCONCLUSIVE,
            Cause.NEAR,
            reason,
            _records_for(level, divergence.p_value),
        )
    if outside is not None and outside.limits.lower > outside.limits.tolerated:
        reason = (
            f"more records than the tolerated {tolerated} are outside the reference with "
            f"confidence {100 * alarm.level:g} %{_rarely(level)}"
        )
        return Outcome.INCONCLUSIVE, Cause.NEAR, reason, _MORE
    return None


def _rarely(level: float) -> str:
    """Say how sure an alarm has to be."""
    return f", but an alarm takes {100 * (1 - level):.7g} %, so that false ones are rare"


def _records_for(level: float, p_value: float) -> str:
    """Say what a check would take to alarm by itself."""
    times = math.log(level) / math.log(p_value) if p_value < 1 else math.inf
    if not 1 < times <= _ENOUGH:
        return _MORE
    return f"about {times:.2g} times as many records in one check"


def _with_outside(found: _Found, limits: OutsideLimits, alarm: Alarm) -> _Found:
    """Keep "no drift" or "no alarm" if the fraction outside the reference is small enough, too."""
    excluded, tolerated = alarm.excluded(limits.tolerated), limits.tolerated
    if limits.upper <= excluded:
        return found
    reason = (
        f"the records outside the reference may be more than {100 * excluded:.3g} %, "
        f"{100 * tolerated:.3g} tolerated and {100 * (excluded - tolerated):.3g} of resolution"
    )
    return Outcome.INCONCLUSIVE, Cause.LIMITS, reason, _MORE


def _excluded(upper: UpperLimit, threshold: float, resolution: float) -> _Found:
    """Return "no drift" if everything from threshold and resolution on is excluded."""
    excluded = threshold + resolution
    rule = f"{excluded:.3g} nats, {threshold:g} tolerated and {resolution:g} of resolution"
    if upper.value > excluded:
        reason = f"the divergence may be above {rule}"
        return Outcome.INCONCLUSIVE, Cause.LIMITS, reason, upper.resolves(excluded)
    if upper.value <= threshold:
        rule = f"the {threshold:g} nats that are tolerated"
    reason = f"the divergence is below {rule}, with confidence {100 * upper.level:g} %"
    return Outcome.NO_DRIFT, Cause.LIMITS, reason, None


def _quiet(seen: float, threshold: float, whose: str) -> _Found:
    """Return what a check says that found nothing and would have seen something."""
    reason = (
        f"the estimate is not above the tolerated {threshold:g} nats; a drift of {whose} by "
        f"{seen:.3g} nats would have put it there with probability {LIKELY:g}, if spread, tilted, "
        "vanishing or one new symbol; of another shape, one up to the limit may have been missed"
    )
    return Outcome.NO_ALARM, Cause.FORECAST, reason, None
