"""What published numbers say of a domain, or of one column of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from flwr_kld.inference.outside import OutsideFraction


@dataclass(frozen=True)
class Estimated:
    """An estimate of KL(reference || clients), and whose it is."""

    # Of those whom the cohort was drawn from, or of the counted records themselves
    of: Literal["population", "cohort"]
    whose: str  # The same in this check's words
    value: float  # In nats; one standard deviation
    deviation: float

    def __str__(self) -> str:
        return f"{self.value:z.3f} ± {self.deviation:.3f}"


@dataclass(frozen=True)
class Reading:
    """What the published numbers say, by post-processing alone."""

    # Of KL(reference || clients), in nats: the reference comes first. None if what was published
    # allows no finite number; `note` then says why.
    estimate: float | None
    # The estimand is ``D_θ = KL(Π || (1 - θ) P + θ Π)``; None if the release targets no D_θ
    theta: float | None
    estimator: str  # Name of the estimator
    # Whose divergence: the ``"cohort"``'s own, or the ``"population"``'s that it was drawn from
    target: str | None
    # Standard deviations in nats by cause: a finite cohort, symbols not asked, the noise. None
    # where the release does not allow an estimate of it.
    sampling: float | None
    monte_carlo: float | None
    privacy: float | None
    # Number of records that the estimate is about; with a threshold, of the first half. Exact under
    # replace-one adjacency, otherwise estimated or the public normaliser.
    records: float
    note: str | None = None  # What a reader must know about this check, if anything
    # Estimated fraction of records where the reference has no mass, and what they are. None if it
    # has some everywhere, or the release does not tell.
    outside: OutsideFraction | None = None
    movements: tuple[dict[str, Any], ...] = ()  # Cells that moved most, ``Movement.to_dict``
    # Weight of each candidate distribution that the clients may follow, where there are any
    candidates: dict[str, float] = field(default_factory=dict)
    # The divergence of the distribution that the cohort's records were drawn from, and its standard
    # deviation, in nats; None where `estimate` is of it already, or nothing tells
    population_estimate: float | None = None
    population_deviation: float | None = None
    # Population and cohort in words: ``"the clients that these 200 were drawn from"``, ``"these 200
    # clients"``
    drawn_from: str | None = None
    counted: str | None = None

    @property
    def of_population(self) -> Estimated | None:
        """The population's divergence, if it was estimated."""
        whose = self.drawn_from or "the clients that the cohort was drawn from"
        if self.target == "population" and self.estimate is not None:
            return Estimated("population", whose, self.estimate, self.error)
        if self.population_estimate is None or self.population_deviation is None:
            return None
        return Estimated("population", whose, self.population_estimate, self.population_deviation)

    @property
    def of_cohort(self) -> Estimated | None:
        """The counted records' own divergence, if it was estimated."""
        if self.estimate is None or self.target == "population":
            return None
        return Estimated("cohort", self.counted or "the cohort", self.estimate, self.error)

    @property
    def estimates(self) -> tuple[Estimated, ...]:
        """What was estimated, the population's first."""
        return tuple(one for one in (self.of_population, self.of_cohort) if one is not None)

    @property
    def told(self) -> Estimated | None:
        """What people see first: the population's estimate, else the cohort's."""
        return next(iter(self.estimates), None)

    @property
    def error(self) -> float:
        """Standard deviation in nats: root of the sum of the known parts' squares."""
        parts = (self.sampling, self.monte_carlo, self.privacy)
        return float(sum(part**2 for part in parts if part is not None) ** 0.5)

    def __str__(self) -> str:
        theta = "" if self.theta is None else f", θ = {self.theta:.4g}"
        outside = "" if self.outside is None else f"; outside the reference: {self.outside}"
        if self.estimate is None:
            return f"KL(reference || clients): no estimate{theta}: {self.note}{outside}"
        told = ", ".join(f"{one} for {one.whose}" for one in self.estimates)
        return f"KL(reference || clients) in nats: {told}{theta}{outside}"
