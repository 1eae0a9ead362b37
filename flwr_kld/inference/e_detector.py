"""The alarm over checks: an e-detector, with a yearly rate of false alarms that the user sets.

Shin, Ramdas, Rinaldo 2022 (e-detectors: sums of e-processes over when the drift may have begun),
Ville 1939. Each group of a check is a bet on the sign of its excess; what a fair game could not
have won proves drift.
Proof note: ``docs/proofs/e-detector.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from flwr_kld.arguments import real, whole
from flwr_kld.codec.model import Model
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.inference.evidence import Evidence

_SCHEMA: Final = 1
STAKES = (0.5, 1.0, 2.0)
"""Sizes of drift that are betted on, in standard errors of one check."""
_LOSS, _GAIN = 0.9, 0.6
"""Most that a group's bet can lose and gain. For symmetric sums any gain up to the loss is valid;
for a long tail below none is, whatever the law: see the proof note."""
_CEILING = 100.0
"""Evidence stops at so many times the alarm, so that an alarm ends some days after the drift."""
_MEMORY = 0.95
"""Share of the past that each check leaves in the variance: about 20 checks count."""
_PRIOR = 9.0
"""Degrees of freedom that say: the variance is as predicted."""


@dataclass(frozen=True)
class Standing:
    """Where the evidence stands after a check.

    Parameters
    ----------
    evidence : float
        Added up over checks, 0 or more.
    alarm_at : float
        One over the rate of false alarms.
    checks : int
        So far.
    """

    evidence: float
    alarm_at: float
    checks: int

    @property
    def alarmed(self) -> bool:
        """Whether there is an alarm now."""
        return self.evidence >= self.alarm_at


_NotNegative = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class _State(Model, what="the alarm's state"):
    schema: Literal[1]
    rate: float
    horizon: int
    checks: Annotated[int, Field(ge=0)]
    sums: Annotated[list[_NotNegative], Field(min_length=len(STAKES), max_length=len(STAKES))]
    squares: _NotNegative
    degrees: _NotNegative


class EDetector:
    """Adds up evidence over checks, for drifts that may begin at any of them.

    Parameters
    ----------
    rate : float
        In (0, 1): the probability of any false alarm in the first `horizon` checks is at most
        this where groups' sums are symmetric, and near it where no client is far heavier than
        others (measured, not proved); in the long run there are at least ``horizon / rate`` checks
        between two on average.
    horizon : int
        Checks in that time, >= 1. Default: daily for a year.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, rate: float = 0.05, horizon: int = 365) -> None:
        self.rate = real("rate", rate, above=0, below=1)
        self.horizon = whole("horizon", horizon, least=1, unit="checks")
        self._checks = 0
        self._sums: Floats = np.zeros(len(STAKES))
        self._squares = self._degrees = 0.0  # of the spread of the groups of past checks

    def update(self, evidence: Evidence) -> Standing:
        """Take in one check. The same checks in the same order always end in the same state."""
        excess = np.array(evidence.excess)
        groups = len(excess)
        deviation = ((self._squares + _PRIOR) / (self._degrees + _PRIOR)) ** 0.5
        stakes = np.array(STAKES)[:, None] / (deviation * groups**0.5)
        grown = np.prod(1 + np.clip(stakes * excess, -_LOSS, _GAIN), axis=1)
        sums = (self._sums + 1 / self.horizon) * grown
        self._sums = np.minimum(sums, _CEILING / self.rate)
        self._squares = _MEMORY * self._squares + (groups - 1) * evidence.spread
        self._degrees = _MEMORY * self._degrees + groups - 1
        self._checks += 1
        return self.standing

    @property
    def standing(self) -> Standing:
        """Where the evidence stands."""
        return Standing(float(self._sums.mean()), 1 / self.rate, self._checks)

    def state(self) -> dict[str, Any]:
        """Return a JSON-able form that `restore` reads back exactly, schema versioned."""
        return _State(
            schema=_SCHEMA,
            rate=self.rate,
            horizon=self.horizon,
            checks=self._checks,
            sums=self._sums.tolist(),
            squares=float(self._squares),
            degrees=float(self._degrees),
        ).to_config()

    @classmethod
    def restore(cls, state: dict[str, Any]) -> EDetector:
        """Read what `state` wrote.

        Raises
        ------
        ValueError
            If it is not such a state.
        """
        read = _State.from_config(state)
        detector = cls(read.rate, read.horizon)
        detector._checks = read.checks
        detector._sums = np.array(read.sums)
        detector._squares, detector._degrees = read.squares, read.degrees
        return detector
