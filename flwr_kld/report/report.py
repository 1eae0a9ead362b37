"""What a check says: the estimate, what it rests on, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from flwr_kld.inference.outside_share import OutsideShare
from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.messages.json_text import json_text
from flwr_kld.privacy.sight import Sight
from flwr_kld.report.words import aside

SCHEMA = 2
"""Version of the JSON form."""


@dataclass(frozen=True)
class Report:
    """One finished check. Everything in it is public.

    Parameters
    ----------
    check : str
        Random id.
    started : str
        UTC, ISO 8601.
    estimate : float or None
        Of KL(reference || clients), in nats: the reference comes first. None if what was published
        allows no finite number; `note` then says why.
    theta : float or None
        The estimand is ``D_θ = KL(Π || (1 - θ) P + θ Π)``; None if the release targets no D_θ.
    estimator : str
        Name of the estimator, or ``"scalar"``.
    target : str or None
        Whose divergence: the ``"cohort"``'s own, or the ``"population"``'s that it was drawn from.
    sampling, monte_carlo, privacy : float or None
        Standard deviations in nats by cause: a finite cohort, symbols not asked, the noise. None
        where the release does not allow an estimate of it.
    note : str or None
        What a reader must know about this check, if anything.
    trust, aggregation, mechanism, adjacency, unit : str
        Trust model; how counts became a sum; noise; between which federations; whether a record
        or a client is hidden.
    epsilon, delta : float
        The guarantee, in nats and as a probability.
    delivered : float
        Epsilon that the noise delivers at `delta`: `epsilon`, or another number where clients add
        the noise and more or fewer than planned survived.
    noise : float
        Standard deviation of the noise: in records for each cell, or in nats for a scalar.
    private : bool
        False if a simulation asked for seeded noise, which protects nobody.
    asked, survivors : int
        Clients in the cohort, and those whose counts are in the sum.
    dropouts : dict[str, int]
        Clients left out, by reason.
    records : float
        Number of records that the estimate is about; with a threshold, of the first half. Exact
        under replace-one adjacency, otherwise estimated or the public normaliser.
    cells : int
        Length of the count vector.
    domain, reference, plan : str
        Fingerprints.
    seconds : float
        Wall time.
    bytes_down, bytes_up : float
        Payload for each client, mean.
    key : str or None
        Idempotency key of a scheduled check.
    population : str or None
        Whose budget was charged; None without a ledger.
    epsilon_left : float or None
        What the budget's window had left for the person charged most, in nats.
    epsilon_budget : float or None
        Epsilon of the budget that was in force, in nats.
    verdict : Verdict or None
        The decision; None if no threshold was given.
    outside : OutsideShare or None
        Estimated share of records where the reference has no mass, and what they are. None if it
        has some everywhere, or the release does not tell.
    movements : tuple[dict[str, Any], ...]
        Cells that moved most, ``Movement.to_dict``.
    candidates : dict[str, float]
        Weight of each candidate distribution that the clients may follow, where there are any.
    sight : Sight or None
        Who saw what, as the trust model says; None in a report of before it was written down.
    """

    check: str
    started: str
    estimate: float | None
    theta: float | None
    estimator: str
    target: str | None
    sampling: float | None
    monte_carlo: float | None
    privacy: float | None
    note: str | None
    trust: str
    aggregation: str
    mechanism: str
    adjacency: str
    unit: str
    epsilon: float
    delta: float
    delivered: float
    noise: float
    private: bool
    asked: int
    survivors: int
    dropouts: dict[str, int]
    records: float
    cells: int
    domain: str
    reference: str
    plan: str
    seconds: float
    bytes_down: float
    bytes_up: float
    key: str | None = None
    population: str | None = None
    epsilon_left: float | None = None
    verdict: Verdict | None = None
    outside: OutsideShare | None = None
    movements: tuple[dict[str, Any], ...] = ()
    candidates: dict[str, float] = field(default_factory=dict)
    epsilon_budget: float | None = None
    sight: Sight | None = None

    @property
    def outcome(self) -> Outcome | None:
        """The decision's outcome, if one was made."""
        return None if self.verdict is None else self.verdict.outcome

    @property
    def lower_bound(self) -> float | None:
        """Lower confidence bound in nats, if there is one; 0 where it is below 0."""
        bound = None if self.verdict is None else self.verdict.lower_bound
        return None if bound is None else max(0.0, bound)

    @property
    def outside_share(self) -> float | None:
        """Estimated share of records outside the reference, if it is known."""
        return None if self.outside is None else self.outside.share

    @property
    def outside_lower(self) -> float | None:
        """Lower confidence bound of that share, if there is one."""
        return None if self.verdict is None else self.verdict.outside_lower

    @property
    def threshold(self) -> float | None:
        """Nats that the operator tolerates, if a threshold was given."""
        return None if self.verdict is None else self.verdict.threshold

    @property
    def error(self) -> float:
        """Standard deviation in nats: root of the sum of the known parts' squares."""
        parts = (self.sampling, self.monte_carlo, self.privacy)
        return float(sum(part**2 for part in parts if part is not None) ** 0.5)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, schema versioned."""
        return {"schema": SCHEMA, "direction": "KL(reference || clients)", **asdict(self)}

    def to_json(self) -> str:
        """Return the JSON text."""
        return json_text(self.to_dict(), indent=2, sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        """Read what `to_dict` wrote.

        Raises
        ------
        ValueError
            If it has another schema.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(f"not a report of schema {SCHEMA}")
        own = {k: v for k, v in values.items() if k not in ("schema", "direction")}
        own["movements"] = tuple(own["movements"])
        if own["verdict"] is not None:
            own["verdict"] = Verdict.from_dict(own["verdict"])
        if own.get("sight") is not None:
            own["sight"] = Sight.from_dict(own["sight"])
        if own.get("outside") is not None:
            own["outside"] = OutsideShare.from_dict(own["outside"])
        return cls(**own)

    def __str__(self) -> str:
        theta = "" if self.theta is None else f", θ = {self.theta:.4g}"
        if self.estimate is None:
            reading = f"KL(reference || clients): no estimate{theta}: {self.note}"
        else:
            reading = (
                f"KL(reference || clients) = {self.estimate:z.3f} ± {self.error:.3f} nats{theta}"
            )
        privacy = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")
        if self.outside is not None:
            reading += f"; outside the reference: {self.outside}"
        decided = "" if self.verdict is None else f"{self.verdict.outcome}: {self.verdict.reason}; "
        return (
            f"{decided}{reading}; {privacy} per {self.unit} ({self.adjacency}, {self.trust})"
            f"{'' if self.private else ', SEEDED NOISE: NOT PRIVATE'}; "
            f"{self.survivors} of {self.asked} clients{aside(self.dropouts)}, "
            f"{self.records:.0f} records"
        )
