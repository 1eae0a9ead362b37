"""What a round of a predictor says: which candidate clients' labels follow, and how surely."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flwr_kld.messages.json_text import json_text
from flwr_kld.report.words import aside

SCHEMA = "predictor 2"
"""Version of the JSON form."""
LOCAL = "local"
"""Trust model of a round, and under which name the ledger keeps what it cost."""


def round_key(name: str, number: int) -> str:
    """Key under which the ledger keeps a round of a predictor."""
    return f"{name}/{number}"


def round_of(key: str) -> tuple[str, int]:
    """Return which predictor's round a key is of, and which: what `round_key` was given."""
    name, _, number = key.rpartition("/")
    return name, int(number)


@dataclass(frozen=True)
class PredictorReport:
    """One finished round. Everything in it is public.

    Parameters
    ----------
    name : str
        The predictor's.
    round : int
        From 1, over all runs.
    started : str
        UTC, ISO 8601.
    weights : dict[str, float]
        Weight of each candidate for the next report.
    mixture : dict[str, float]
        Proportions of the candidates that explain the recent reports best, if none does alone;
        empty where the predictor has no such read-out.
    leader : str
        The heaviest candidate.
    log_odds : float
        Of the leader against the runner-up, in nats.
    swing : float
        Most nats by which one report moves log-odds, if a lie takes the place of the truth.
    outlasts : int
        Reports that may be lies without changing the leader.
    risk_bound : float or None
        Bound on what the predictions of all rounds so far lose in expectation, in nats, if the
        leader was true from the start and every round brought as many reports as this one; None
        if the predictor claims none.
    epsilon, delta : float
        What this round cost each client that answered, in nats and as a probability; protects the
        whole client.
    epsilon_left : float or None
        What the budget's window had left for the client charged most, in nats; None without a
        ledger.
    asked, taken : int
        Clients in the cohort, and reports that were taken.
    rejected : dict[str, int]
        Reports and clients left out, by reason.
    reports : int
        Taken in all rounds.
    seconds : float
        Wall time.
    epsilon_budget : float or None
        Epsilon of the budget that was in force, in nats; None without a ledger.
    """

    name: str
    round: int
    started: str
    weights: dict[str, float]
    mixture: dict[str, float]
    leader: str
    log_odds: float
    swing: float
    outlasts: int
    risk_bound: float | None
    epsilon: float
    delta: float
    epsilon_left: float | None
    asked: int
    taken: int
    rejected: dict[str, int]
    reports: int
    seconds: float
    epsilon_budget: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, schema versioned."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """Return the JSON text."""
        return json_text(self.to_dict(), indent=2, sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PredictorReport:
        """Read what `to_dict` wrote.

        Raises
        ------
        ValueError
            If it has another schema.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(f"not a predictor's report of schema {SCHEMA!r}")
        return cls(**{name: value for name, value in values.items() if name != "schema"})

    def __str__(self) -> str:
        return (
            f"round {self.round}: clients follow {self.leader!r} (weight "
            f"{self.weights[self.leader]:.3f}, log-odds {self.log_odds:.1f} nats, lies outlasted: "
            f"{self.outlasts}); {self.taken} of {self.asked} reports"
            f"{aside(self.rejected)} at ε = {self.epsilon:g}"
        )
