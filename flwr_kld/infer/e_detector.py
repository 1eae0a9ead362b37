"""E-detector: evidence multiplied over checks; its false-alarm rate holds for every law.

Each check multiplies what was staked by e, whose mean is at most 1 if D_θ is at most the threshold
(`DivergenceTest.log_evidence`). An e-detector (Shin, Ramdas, Rinaldo 2022) adds up for drifts that
may begin at any check; Ville 1939.
Proof note: ``docs/proofs/decisions.md``.

`_CEILING` caps evidence at so many times the alarm, so that what it says is of now: at 1.5 an alarm
ends with the first check that shows nothing, and stands in 51 of 60 checks that each see a drift by
two errors. Half of it never alarms; twice as much ends an alarm a check later, and stands in 54.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from flwr_kld.common.strict_model import Model
from flwr_kld.kernel.arguments import finite, integer, set_fields

_CEILING = 1.5


@dataclass(frozen=True)
class EDetector(Model, what="the alarm's state"):
    """Adds up evidence over checks, for drifts that may begin at any of them. Public."""

    rate: float = 0.05  # Probability of a false alarm in `horizon` checks, at most
    horizon: int = 365
    checks: int = 0  # Number of checks so far
    evidence: float = 0.0  # Added up over them, 0 or more
    schema: Literal[1] = 1  # Version

    def __post_init__(self) -> None:
        set_fields(
            self,
            rate=finite("rate", self.rate, above=0, below=1),
            horizon=integer("horizon", self.horizon, least=1, unit="checks"),
            checks=integer("checks", self.checks, least=0),
            evidence=finite("evidence", self.evidence, least=0),
        )

    def update(self, log_evidence: float) -> EDetector:
        """Take in one check's ln e. The same checks in the same order end in the same state."""
        started = math.log(self.evidence + 1 / self.horizon)
        most = math.log(_CEILING / self.rate)
        evidence = math.exp(min(started + finite("evidence", log_evidence), most))
        return replace(self, checks=self.checks + 1, evidence=evidence)

    @property
    def alarm(self) -> tuple[float, int]:
        """Rate and horizon: evidence of another alarm does not count."""
        return self.rate, self.horizon

    @property
    def alarm_at(self) -> float:
        """Evidence that alarms: one over the rate of false alarms."""
        return 1 / self.rate

    @property
    def alarmed(self) -> bool:
        """Whether there is an alarm now."""
        return self.evidence >= self.alarm_at
