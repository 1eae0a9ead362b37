"""`Decider`: from what a check published to its verdict, and what it remembers for the next."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flwr_kld.accounting.entry import Remembered
from flwr_kld.check.measured import Measured
from flwr_kld.inference.allowance import SHARE, Allowance, allowance, rows_needed
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.decision import Alone, Outside, contradicted, decide, unmeasured
from flwr_kld.inference.e_detector import EDetector
from flwr_kld.inference.estimators.score import check_level
from flwr_kld.inference.lower_bound import LowerBound, divergence_sum, lower_confidence_bound
from flwr_kld.inference.outside import (
    OutsideLimits,
    outside_by_counts,
    outside_limits,
    outside_sum,
)
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.inference.upper_limit import upper_limit
from flwr_kld.inference.verdict import OperatingCharacteristic, how_guarantees_hold
from flwr_kld.inference.whole_cohort import whole_cohort
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.arguments import keep, real, whole
from flwr_kld.planner.allotment import RESOLUTION
from flwr_kld.planner.detection import Estimating
from flwr_kld.query.noisy import ClientSums, NoisyCounts
from flwr_kld.reference import Reference
from flwr_kld.report import Verdict

if TYPE_CHECKING:
    from flwr_kld.accounting import Ledger

_AT_ONCE, _AT_ONCE_ALONE, _STANDS = 0.2, 0.4, (1 - SHARE) / 2
"""Part of the rate of false alarms that single checks may use up for the divergence, and as much
again for the fraction outside the reference; the rest is the detector's. A check that stands alone
has little use for that, and one of the same records as the one before none: what is left is for a
reference that is a sample."""
_MOST_OUTSIDE = 0.99
"""Fraction of the records outside the reference that is tested, at most."""
_TELLING = 0.25
"""Part of the resolution from which on it is said what the reference cannot tell."""
_ALIKE = 0.1
"""Part by which cohorts may differ in size without another forecast."""
_EVIDENCE = 1
"""Version of what is remembered. Another begins evidence anew: what was gathered does not count."""


@dataclass(frozen=True)
class Alarm:
    """How sure a verdict of drift must be.

    Parameters
    ----------
    rate : float
        In (0, 0.5]: probability of any false alarm in `horizon` checks. A theorem for every law of
        clients within `most_records`; of these very clients, asymptotic in the number of records.
    horizon : int
        365 for a year of daily checks; 1 for a check that stands alone.
    level : float
        One-sided confidence of the bound that a report shows, in [0.5, 1).
    resolution : float
        "No drift" is said only by a check whose upper limit, for drifts of every shape, is at most
        this many nats beyond the threshold.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    rate: float = 0.05
    horizon: int = 365
    level: float = 0.95
    resolution: float = RESOLUTION

    def __post_init__(self) -> None:
        keep(
            self,
            rate=real("rate", self.rate, above=0, most=0.5),
            horizon=whole("horizon", self.horizon, least=1, unit="checks"),
            level=check_level(self.level),
            resolution=real("resolution", self.resolution, above=0, unit="nats"),
        )

    @property
    def detector(self) -> EDetector:
        """A fresh detector of evidence over checks."""
        return EDetector((1 - 2 * self._part) * self.rate, self.horizon)

    def shared(self, columns: int) -> Alarm:
        """Return the part of this alarm that each column of a table may use up (Bonferroni)."""
        return replace(self, rate=self.rate / columns)

    @property
    def level_at_once(self) -> float:
        """Probability with which a single check alarms falsely, at most: for each of D and q."""
        return self._part * self.rate / self.horizon

    def alone(self, witness: Witness, sums: ClientSums) -> Alone:
        """Return what a single check shows of D_θ, to be held against `level_at_once`."""
        score = divergence_sum(witness, sums, self.level_at_once)
        return Alone(score.p_value(), self.level_at_once, "client")

    def outside(self, limits: OutsideLimits | None, p_value: float, tolerated: float) -> Outside:
        """Return what a check shows of q, the fraction of records outside the reference."""
        excluded = 1 - (1 - tolerated) * math.exp(-self.resolution)
        return Outside(limits, p_value, tolerated, excluded)

    @property
    def _part(self) -> float:
        return _AT_ONCE if self.horizon > 1 else _AT_ONCE_ALONE


@dataclass(frozen=True)
class Decided:
    """A verdict, and what is to be remembered."""

    verdict: Verdict | None  # None if no threshold was given
    states: tuple[Remembered, ...] = ()  # For the ledger, written together with the report


@dataclass
class Decider:
    """Decides checks in their order."""

    threshold: float  # Nats of D_θ that are tolerated
    outside: float  # Fraction of records outside the reference that is tolerated, in [0, 1)
    alarm: Alarm  # How sure decisions are
    theta: float  # θ of D_θ
    reference: Reference  # Evidence against another one does not count here
    column: str  # Evidence on another one does not count here
    columns: int = 1  # Whose lower bounds hold all at once
    # Whether every check counts the same records: what one says follows from the one before, so
    # that no evidence adds up
    stands: bool = False
    _detector: EDetector = field(init=False, repr=False)
    _recent: RecentChecks = field(init=False, repr=False, default=RecentChecks())
    _version: int = 0
    _seen: tuple[tuple[float, ...], float | None] | None = field(
        init=False, repr=False, default=None
    )

    def __post_init__(self) -> None:
        self._detector = self.alarm.detector
        if self.sampled:
            rate = self._detector.rate - SHARE * self.alarm.rate
            self._detector = replace(self._detector, rate=rate)

    @property
    def sampled(self) -> bool:
        """Whether the reference was counted from so many records that chance is in it."""
        return self.reference.records is not None

    @property
    def tested(self) -> tuple[float, float]:
        """Nats and fraction that a check tests: what is tolerated, and what the reference hides."""
        hidden = self._hidden(self.alarm.rate)
        outside = self.outside + (1 - self.outside) * hidden.unseen
        return hidden.above(self.threshold), min(outside, _MOST_OUTSIDE)

    def _hidden(self, error: float) -> Allowance:
        """Return what the reference hides, but for its part of an error probability."""
        return allowance(self.reference, theta=self.theta, level=1 - SHARE * error)

    @property
    def recent(self) -> RecentChecks:
        """What the last checks published."""
        return self._recent

    def recall(self, ledger: Ledger, budget: str) -> bool:
        """Take up what a ledger remembers, and no more; False if another version gathered it."""
        # What is in memory alone is of a check that was not settled
        self.__post_init__()
        self._recent = RecentChecks()
        found = ledger.state(self._name(budget))
        self._version = 0 if found is None else found.version
        if found is None:
            return True
        if found.value["version"] != _EVIDENCE:
            return False
        self._detector = EDetector.from_config(found.value["evidence"])
        self._recent = RecentChecks.from_json(found.value["recent"])
        return True

    def decide(
        self, measured: Measured, budget: str, contradiction: str | None, design_effect: float
    ) -> Decided:
        """Return the verdict of one check, and the evidence after it.

        Numbers that contradict each other decide nothing, and are not evidence for later checks.
        """
        if contradiction is not None:
            return Decided(contradicted(self.threshold, self.alarm.level, contradiction))
        first = measured.first.values
        if measured.decides_by_counts and isinstance(first, NoisyCounts):
            return self._by_counts(first, budget, measured)
        if not measured.witnesses or measured.second is None or not isinstance(first, NoisyCounts):
            why = measured.failure or "it was not asked"
            return Decided(unmeasured(self.threshold, self.alarm.level, why))
        sums = measured.second.values
        if not isinstance(sums, ClientSums):
            raise TypeError("a bound needs sums over clients")
        return self._by_sums(first, measured.witness, sums, budget, measured, design_effect)

    def _by_counts(self, counts: NoisyCounts, budget: str, measured: Measured) -> Decided:
        """Decide on all counts of a cohort, about the very clients that were asked."""
        threshold, tolerated = self.tested
        alarm, at_once, (_, each) = self.alarm, self._level_at_once, self._levels
        found = whole_cohort(counts, theta=self.theta, threshold=threshold, error=at_once)
        limits, p_value = outside_by_counts(counts, tolerated, level=alarm.level)
        verdict = self._verdict(
            measured,
            LowerBound(found.at_least(each), found.at_least(0.5)),
            Alone(found.p_value(threshold), at_once, "record"),
            None if self.stands else found.log_evidence(threshold),
            alarm.outside(limits, p_value, tolerated),
            most_records=measured.first.most_records,
        )
        return Decided(verdict, (self._remembered(budget),))

    def _by_sums(
        self,
        first: NoisyCounts,
        witness: Witness,
        sums: ClientSums,
        budget: str,
        measured: Measured,
        design_effect: float,
    ) -> Decided:
        """Decide on sums over clients."""
        alarm, deciding, (_, each) = self.alarm, witness.deciding, self._levels
        p_value = 1.0
        if witness.plan.outside.any():
            p_value = outside_sum(witness, sums, alarm.level_at_once).p_value()
        verdict = self._verdict(
            measured,
            lower_confidence_bound(witness, sums, level=each),
            alarm.alone(witness, sums),
            log_evidence(witness, sums),
            alarm.outside(
                outside_limits(witness, sums, level=alarm.level), p_value, deciding.outside
            ),
            effect=design_effect,
            most_records=deciding.most_records,
        )
        self._recent = self._recent.with_check(first, measured.spread)
        if not self._recent.most_records and measured.sizes_are_hidden:
            self._recent = replace(
                self._recent,
                most_records=deciding.most_records,
                usual=first.records / measured.first.survivors,
            )
        return Decided(verdict, (self._remembered(budget),))

    @property
    def _level_at_once(self) -> float:
        alarm = self.alarm
        return _STANDS * alarm.rate / alarm.horizon if self.stands else alarm.level_at_once

    @property
    def _levels(self) -> tuple[float, float]:
        """Confidence of the upper limit, and of one of a table's lower bounds."""
        error = (1 - SHARE if self.sampled else 1) * (1 - self.alarm.level)
        return 1 - error, 1 - error / self.columns

    def _verdict(
        self,
        measured: Measured,
        bound: LowerBound,
        alone: Alone,
        log_evidence: float | None,
        outside: Outside,
        *,
        most_records: int,
        effect: float = 1.0,
    ) -> Verdict:
        """Decide, and allow for what the reference hides."""
        error, held = 1 - self.alarm.level, measured.first.holds_to_limits
        if log_evidence is not None:  # else nothing is staked on it, either
            self._detector = self._detector.update(log_evidence)
        upper = upper_limit(
            measured.published, theta=self.theta, level=self._levels[0], design_effect=effect
        )
        hidden, most = self._hidden(error), -math.log(self.theta) if self.theta else math.inf
        verdict = decide(
            replace(bound, lower=self._hidden(error / self.columns).below(bound.lower)),
            alone,
            replace(upper, value=min(hidden.at_most(upper.value), most), level=self.alarm.level),
            self._detector,
            outside,
            threshold=self.threshold,
            resolution=self.alarm.resolution,
            level=self.alarm.level,
            population=measured.population,
            counted=measured.estimated[0],
            held=held,
            seen_from=lambda: self._seen_from(measured.published, effect),
        )
        holds = how_guarantees_hold(alone.draws, most_records, held=held)
        alarm = OperatingCharacteristic(
            rate=self.alarm.rate,
            by_evidence=self._detector.rate,
            horizon=self._detector.horizon,
            between_false_alarms=self._detector.between_false_alarms,
        )
        told = None if self.stands else alarm  # by no evidence
        return replace(self._limited(verdict, hidden), holds=holds, alarm=told)

    def _limited(self, verdict: Verdict, hidden: Allowance) -> Verdict:
        """Say in a verdict what its reference cannot tell, and how many rows could."""
        resolution = self.alarm.resolution
        if hidden.chance < _TELLING * resolution:
            return verdict
        reason = (
            f"{verdict.reason}; the reference is a sample of {self.reference.records:,.0f} "
            f"records, and cannot tell {hidden.chance:.2g} nats from none"
        )
        level, resolve = self.alarm.level, verdict.resolve
        rows = rows_needed(
            self.reference, self.threshold, resolution, theta=self.theta, level=level
        )
        if resolve is not None and rows is not None and rows > (self.reference.records or 0):
            resolve = f"a reference of about {rows:,} records; {resolve}"
        return replace(verdict, reason=reason, resolve=resolve)

    def _seen_from(self, counts: NoisyCounts, design_effect: float) -> float | None:
        """Forecast from which D_θ on a check sees drifts; anew if what is public changes."""
        known = counts.records, counts.noise.variance, design_effect
        near = zip(known, self._seen[0], strict=True) if self._seen else ()
        if not self._seen or any(abs(new - old) > _ALIKE * old for new, old in near):
            check = Estimating(
                counts.plan, counts.event, counts.records, design_effect, self.threshold, self.theta
            )
            most = self.threshold + self.alarm.resolution
            self._seen = known, check.quiet_from(most, self._hidden(1 - self.alarm.level))
        return self._seen[1]

    def _remembered(self, budget: str) -> Remembered:
        kept = {
            "version": _EVIDENCE,
            "evidence": self._detector.to_config(),
            "recent": self._recent.to_json(),
        }
        remembered = Remembered(self._name(budget), kept, self._version)
        self._version += 1
        return remembered

    def _name(self, budget: str) -> str:
        """Evidence adds up under one reference, θ, threshold and alarm."""
        against = {
            "reference": self.reference.fingerprint,
            "theta": self.theta,
            "threshold": self.threshold,
            "rate": self.alarm.rate,
            "horizon": self.alarm.horizon,
            "level": self.alarm.level,
            "resolution": self.alarm.resolution,
            "column": self.column,
        }
        digest = hashlib.sha256(json.dumps(against).encode()).hexdigest()
        return f"{budget}/alarm/{digest[:16]}"
