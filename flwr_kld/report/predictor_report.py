"""Report of a predictor's round: which candidate clients' labels follow, and how surely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flwr_kld.common.guesses import suggests
from flwr_kld.report.envelope import Envelope
from flwr_kld.report.words import brief

LOCAL = "local"
"""Trust model of a round, and under which name the ledger keeps what it cost."""
_MOST_NAMES = 3
"""Candidates of a mixture that are named: the largest."""


def round_key(name: str, number: int) -> str:
    """Key under which the ledger keeps a round of a predictor."""
    return f"{name}/{number}"


def round_of(key: str) -> tuple[str, int]:
    """Return which predictor's round a key is of, and which: what `round_key` was given."""
    name, _, number = key.rpartition("/")
    return name, int(number)


@dataclass(frozen=True)
class Learnt:
    """What a predictor has learnt so far."""

    weights: dict[str, float]  # Weight of each candidate for the next report
    # Proportions of the candidates that explain the recent reports best, if none does alone
    mixture: dict[str, float]
    leader: str  # The heaviest candidate
    log_odds: float  # Of the leader against the runner-up, in nats
    # Most nats by which one report moves log-odds, if a lie takes the place of the truth
    swing: float
    outlasts: int  # Reports that may be lies without changing the leader
    reports: int  # Reports that all rounds took in
    # Whether the recent rounds refute every candidate, so that predictions follow `mixture` and not
    # `weights`
    refuted: bool

    @property
    def largest(self) -> list[tuple[str, float]]:
        """The candidates that contribute most to the mixture, largest first."""
        return sorted(self.mixture.items(), key=lambda part: -part[1])[:_MOST_NAMES]

    @property
    def led_by(self) -> str:
        """The leader, and whether even that one is refuted."""
        return f"{self.leader} (refuted)" if self.refuted else self.leader

    def __str__(self) -> str:
        if self.refuted:
            parts = ", ".join(f"{part:.0%} {name!r}" for name, part in self.largest)
            return f"no candidate alone explains the reports; the mixture that does best: {parts}"
        return (
            f"clients follow {self.leader!r} (weight {self.weights[self.leader]:.3f}, log-odds "
            f"{self.log_odds:.1f} nats, lies outlasted: {self.outlasts})"
        )


@suggests(
    {
        "confidence": "report.reading.weights[report.reading.leader]",
        "leader": "report.reading.leader",
        "posterior": "report.reading.weights",
        "prediction": "report.reading.leader",
        "probabilities": "report.reading.weights",
        "weights": "report.reading.weights",
    }
)
@dataclass(frozen=True, kw_only=True, repr=False)
class PredictorReport(Envelope):
    """One finished round. Everything in it is public."""

    kind: ClassVar[str] = "round"

    name: str  # Name of the predictor
    round: int  # From 1, over all runs
    reading: Learnt  # What it has learnt so far

    @property
    def summary(self) -> str:
        """What clients' labels follow, in one line."""
        learnt = self.reading
        if learnt.refuted:
            return f"Round {self.round}: no candidate alone explains the reports."
        leader = brief(learnt.leader)
        if not learnt.outlasts:
            return f"Round {self.round}: {leader} leads, but one false report could change that."
        return f"Round {self.round}: clients follow {leader}."
