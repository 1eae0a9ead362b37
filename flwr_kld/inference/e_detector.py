"""Evidence over checks: an alarm whose rate is a theorem, for every law.

Each check multiplies what was staked by e, whose mean is at most 1 if D_θ is at most the threshold
(`Bet`). An e-detector (Shin, Ramdas, Rinaldo 2022) adds up for drifts that may begin at any check;
Ville 1939.
Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from flwr_kld.codec.model import Model
from flwr_kld.kernel.arguments import real, whole

_SCHEMA: Final = 1
_CEILING = 1.5
"""Evidence is capped at this multiple of the alarm: it ends when a check shows nothing, and what it
says is of now."""


@dataclass(frozen=True)
class Evidence:
    """The evidence after a check."""

    value: float  # Added up over checks, 0 or more
    alarm_at: float  # One over the rate of false alarms
    checks: int  # Number of checks so far

    @property
    def alarmed(self) -> bool:
        """Whether there is an alarm now."""
        return self.value >= self.alarm_at


_NotNegative = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class _State(Model, what="the alarm's state"):
    schema: Literal[1]
    rate: float
    horizon: int
    checks: Annotated[int, Field(ge=0)]
    evidence: _NotNegative


class EDetector:
    """Adds up evidence over checks, for drifts that may begin at any of them."""

    def __init__(self, rate: float = 0.05, horizon: int = 365) -> None:
        self.rate = real("rate", rate, above=0, below=1)
        self.horizon = whole("horizon", horizon, least=1, unit="checks")
        self._checks, self._evidence = 0, 0.0

    def update(self, log_evidence: float) -> Evidence:
        """Take in one check's ln e. The same checks in the same order end in the same state."""
        started = math.log(self._evidence + 1 / self.horizon)
        most = math.log(_CEILING / self.rate)
        self._evidence = math.exp(min(started + real("evidence", log_evidence), most))
        self._checks += 1
        return self.evidence

    @property
    def evidence(self) -> Evidence:
        """Where it stands."""
        return Evidence(self._evidence, 1 / self.rate, self._checks)

    @property
    def between_false_alarms(self) -> float:
        """Checks between two false alarms, on average at least."""
        return self.horizon / self.rate

    def state(self) -> dict[str, Any]:
        """Return a JSON-able form that `restore` reads back exactly, schema versioned."""
        state = _State(
            schema=_SCHEMA,
            rate=self.rate,
            horizon=self.horizon,
            checks=self._checks,
            evidence=self._evidence,
        )
        return state.to_config()

    @classmethod
    def restore(cls, state: dict[str, Any]) -> EDetector:
        """Read what `state` wrote."""
        read = _State.from_config(state)
        detector = cls(read.rate, read.horizon)
        detector._checks, detector._evidence = read.checks, read.evidence
        return detector
