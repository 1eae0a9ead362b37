"""`Decider`: turns published numbers into a verdict, and stores evidence for the next check."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.allowance import SHARE, Allowance, allowance, rows_needed
from flwr_kld.infer.cell_fractions import as_law, noisy_fractions
from flwr_kld.infer.decision import Divergence, Outside, Population, decide
from flwr_kld.infer.divergence_test import divergence_tests, log_evidence
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.estimators.result import Estimate
from flwr_kld.infer.estimators.score import THETA, Floats, score_ceiling
from flwr_kld.infer.outside import OutsideFraction, outside_by_counts
from flwr_kld.infer.part_of_records import (
    Draw,
    least_if_missed,
    least_if_moved,
    least_if_overdrawn,
    least_if_underdrawn,
    missed_part,
)
from flwr_kld.infer.power import Estimating
from flwr_kld.infer.upper_limit import upper_limit
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.ledger.entry import Remembered
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

_BESIDE_EVIDENCE, _ALONE = 0.2, (1 - SHARE) / 2
"""Part of the rate of false alarms that single checks may use up for the divergence, and as much
again for the fraction outside the reference; the rest is the detector's, where evidence adds up
over checks, and for a reference that is a sample."""
_MOST_OUTSIDE = 0.99
"""Fraction of the records outside the reference that is tested, at most."""
_TELLING = 0.25
"""Part of the resolution from which on a verdict states the reference's sampling error."""
_SIMILAR = 0.1
"""Part by which cohorts may differ in size without another forecast."""
_EVIDENCE = 1
"""Version of what is remembered. Another begins evidence anew: what was gathered does not count."""


@dataclass(frozen=True)
class Bounds:
    """What the test of D_θ says of one column."""

    p_value: float  # Of at most what its decider tests
    at_least: float  # The largest D_θ that is excluded, in nats


def bounds_of(deciders: Sequence[Decider], columns: Sequence[NoisyCounts]) -> list[Bounds]:
    """Test D_θ of columns of one check, which are as sure as each other, all at once."""
    if not deciders:
        return []
    tests = divergence_tests(columns, error=deciders[0].level)
    thresholds = np.array([decider.tested[0] for decider in deciders])
    bounds = tests.at_least(np.array([decider.levels[1] for decider in deciders]))
    return list(map(Bounds, tests.p_values(thresholds).tolist(), bounds.tolist()))


@dataclass
class Decider:
    """Decides checks of one column in their order."""

    threshold: float  # Nats of D_θ that are tolerated
    outside: float  # Fraction of records outside the reference that is tolerated, in [0, 1)
    alarm: Alarm  # How sure decisions are
    reference: Reference  # Evidence against another one does not count here
    column: str  # Evidence on another one does not count here
    columns: int = 1  # Whose lower bounds hold all at once
    # Whether every check asks all clients about new records: only then does evidence add up
    adds_up: bool = False
    _detector: EDetector | None = field(init=False, repr=False)
    _version: int = 0
    _seen: tuple[tuple[float, ...], float | None] | None = field(
        init=False, repr=False, default=None
    )

    def __post_init__(self) -> None:
        self._detector = None
        if self.adds_up:
            part = 1 - 2 * _BESIDE_EVIDENCE - (SHARE if self.sampled else 0)
            self._detector = EDetector(part * self.alarm.rate, self.alarm.horizon)

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
        return allowance(self.reference, level=1 - SHARE * error)

    @property
    def level(self) -> float:
        """Probability with which a single check alarms falsely, at most: for each of D and q."""
        part = _BESIDE_EVIDENCE if self.adds_up else _ALONE
        return part * self.alarm.rate / self.alarm.horizon

    def so_far(self) -> EDetector | None:
        """Return the evidence of earlier checks, if it adds up, and forget their forecast."""
        self._seen = None
        return self._detector

    def resume(self, detector: EDetector) -> None:
        """Go on from the evidence of earlier checks; `ValueError` if it is of another alarm."""
        if self._detector is None or detector.alarm != self._detector.alarm:
            raise ValueError("the evidence of earlier checks is of another alarm")
        self._detector = detector

    def recall(self, ledger: Ledger, budget: str) -> bool:
        """Take up what a ledger remembers, and no more; False if another version gathered it."""
        if not self.adds_up:
            return True
        # What is in memory alone is of a check that was not settled
        self.__post_init__()
        found = ledger.state(self._name(budget))
        self._version = 0 if found is None else found.version
        if found is None:
            return True
        if found.value["version"] != _EVIDENCE:
            return False
        self._detector = EDetector.from_config(found.value["evidence"])
        return True

    def decide(
        self,
        measured: CohortRelease,
        found: Bounds,
        population: Estimate | None,
        outside: OutsideFraction | None,
        budget: str,
    ) -> tuple[Verdict, tuple[Remembered, ...]]:
        """Return the verdict of one check, and the evidence after it, for the ledger.

        `population` and `outside` are estimated from the same counts, by which `found` tests.
        """
        counts, alarm, tolerated = measured.published, self.alarm, self.tested[1]
        limits, p_value = outside_by_counts(counts, tolerated, level=alarm.level)
        if self._detector is not None:
            self._detector = self._detector.update(log_evidence(found.p_value))
        law = as_law(noisy_fractions(counts), counts.plan.mass)
        populations = self.shown(measured, population, outside, law)
        upper = upper_limit(counts, level=self.levels[0])
        error = 1 - alarm.level
        hidden, most = self._hidden(error), score_ceiling(THETA)
        divergence = Divergence(
            self.threshold,
            self._hidden(error / self.columns).below(found.at_least),
            replace(upper, value=min(hidden.at_most(upper.value), most), level=alarm.level),
            found.p_value,
            populations[0],
        )
        verdict = decide(
            divergence,
            None if limits is None else Outside(limits, p_value, populations[1]),
            self._detector,
            alarm=alarm,
            level=self.level,
            about=measured.whose + ("" if measured.enforces_limits else ", if no client lies"),
            seen_from=lambda: self._seen_from(counts, max(measured.effects.average, 1.0)),
        )
        verdict = self._with_one_client(self._limited(verdict, hidden), measured, law)
        verdict = self._unless_old(verdict, counts, law)
        detector = self._detector
        states = (self._remembered(budget, detector),) if detector else ()
        return verdict, states

    def shown(
        self,
        measured: CohortRelease,
        estimate: Estimate | None,
        outside: OutsideFraction | None,
        law: Floats,
    ) -> tuple[Population | None, Population | None]:
        """Return what drawn clients show of their population's D_θ, and of its fraction outside."""
        if not measured.asked.drawn:
            return None, None
        mass, (tested, tolerated) = measured.published.plan.mass, self.tested
        # One standard deviation of what the reference, if it is a sample, may hide.
        hidden = (tested - self.threshold) / -float(scipy.special.ndtri(SHARE * self.alarm.rate))
        share = 0.0 if outside is None else outside.share
        missed, apart = self.alarm.rate / self.alarm.horizon, measured.effects.apart(law)
        mean = measured.published.records / measured.survivors
        even = min(mean / max(measured.most_alike, 1.0), 1.0)
        one = measured.one_client.share or 0.0

        def least(clients: int) -> float:
            largest = one * measured.survivors / clients
            draw = Draw(clients, missed, apart, even, largest or 1.0)
            return min(
                least_if_missed(mass, law, missed_part(clients, missed)),
                least_if_overdrawn(mass, law, draw),
                least_if_underdrawn(mass, law, draw),
                least_if_moved(mass, law, largest),
            )

        both = Population(
            clients=measured.survivors,
            value=-math.inf if estimate is None else estimate.value,
            error=hidden if estimate is None else math.hypot(estimate.error.total, hidden),
            tolerated=self.threshold,
            level=self.level,
            missed_level=missed,
            least=least,
            sizes_known=measured.sizes_known,
        )
        return both, replace(
            both,
            value=share,
            error=0.0 if outside is None else outside.deviation,
            tolerated=tolerated,
            least=lambda clients: min(
                (1 - missed_part(clients, missed)) * share,
                share - one * measured.survivors / clients,
            ),
        )

    def _with_one_client(self, verdict: Verdict, measured: CohortRelease, law: Floats) -> Verdict:
        """Say in a verdict whether one client alone could have made it."""
        client = measured.one_client
        if not client.held or verdict.outcome is Outcome.INCONCLUSIVE:
            return verdict
        share = 1.0 if client.share is None else client.share
        could = self._made_by(share, verdict, measured.published, law)
        return replace(verdict, by_one_client=could)

    def _unless_old(self, verdict: Verdict, counts: NoisyCounts, law: Floats) -> Verdict:
        """Take a verdict back that the records could have made which have changed since."""
        share = counts.frozen_share
        if verdict.outcome is Outcome.INCONCLUSIVE or not share:
            return verdict
        if not self._made_by(share, verdict, counts, law):
            return verdict
        return replace(
            verdict,
            outcome=Outcome.INCONCLUSIVE,
            cause=Cause.OLD,
            reason=f"the picture is old: {100 * share:.2g} % of the records have changed since, "
            f"more often than this session counts; as they were counted, {verdict.reason}",
            resolve="another session, by another Standing(…, name=…), or one with more moves=",
        )

    def _made_by(self, share: float, verdict: Verdict, counts: NoisyCounts, law: Floats) -> bool:
        """Whether a part of the records, if it is other than it counts, could make a verdict."""
        mass = counts.plan.mass
        if verdict.outcome is Outcome.DRIFT:
            left = least_if_moved(mass, law, share)
            outside = float(law[mass == 0].sum())
            return left <= self.threshold and outside - share <= self.outside
        return -math.log1p(-min(share, 1 - 1e-12)) > self.threshold + self.alarm.resolution

    @property
    def levels(self) -> tuple[float, float]:
        """Confidence of the upper limit, and of one of a table's lower bounds."""
        error = (1 - SHARE if self.sampled else 1) * (1 - self.alarm.level)
        return 1 - error, 1 - error / self.columns

    def _limited(self, verdict: Verdict, hidden: Allowance) -> Verdict:
        """State in a verdict the reference's sampling error, and how many rows would suffice."""
        resolution = self.alarm.resolution
        if hidden.chance < _TELLING * resolution:
            return verdict
        reason = (
            f"{verdict.reason}; the reference is a sample of {self.reference.records:,.0f} "
            f"records, and cannot tell {hidden.chance:.2g} nats from none"
        )
        resolve = verdict.resolve
        if resolve is not None and (rows := self._rows_needed) > (self.reference.records or 0):
            resolve = f"a reference of about {rows:,} records; {resolve}"
        return replace(verdict, reason=reason, resolve=resolve)

    @cached_property
    def _rows_needed(self) -> int:
        """How many records of a reference would resolve the threshold."""
        resolution, level = self.alarm.resolution, self.alarm.level
        return rows_needed(self.reference, self.threshold, resolution, level=level) or 0

    def _seen_from(self, counts: NoisyCounts, design_effect: float) -> float | None:
        """Forecast from which D_θ on a check sees drifts; anew if what is public changes."""
        known = counts.records, counts.noise.variance, design_effect
        near = zip(known, self._seen[0], strict=True) if self._seen else ()
        if not self._seen or any(abs(new - old) > _SIMILAR * old for new, old in near):
            check = Estimating(
                counts.plan, counts.event, counts.records, design_effect, self.threshold
            )
            most = self.threshold + self.alarm.resolution
            self._seen = known, check.seen_from(most, self._hidden(1 - self.alarm.level))
        return self._seen[1]

    def _remembered(self, budget: str, detector: EDetector) -> Remembered:
        state = {"version": _EVIDENCE, "evidence": detector.to_config()}
        remembered = Remembered(self._name(budget), state, self._version)
        self._version += 1
        return remembered

    def _name(self, budget: str) -> str:
        """Evidence adds up under one reference, threshold and alarm."""
        against = {
            "reference": self.reference.fingerprint,
            "threshold": self.threshold,
            "rate": self.alarm.rate,
            "horizon": self.alarm.horizon,
            "level": self.alarm.level,
            "resolution": self.alarm.resolution,
            "column": self.column,
        }
        digest = hashlib.sha256(json.dumps(against).encode()).hexdigest()
        return f"{budget}/alarm/{digest[:16]}"
