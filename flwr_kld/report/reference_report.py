"""How a reference was made of a federation's counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flwr_kld.report.words import aside

SCHEMA = "reference 1"
"""Version of the JSON form."""


@dataclass(frozen=True)
class ReferenceReport:
    """How a reference was made. Everything in it is public.

    Parameters
    ----------
    reference, domain : str
        Fingerprints.
    started : str
        UTC, ISO 8601.
    trust, aggregation, mechanism, adjacency, unit : str
        As in `Report`.
    epsilon, delta, delivered : float
        As in `Report`.
    asked, survivors : int
        Clients.
    dropouts : dict[str, int]
        Clients left out, by reason.
    records : float
        In the histogram.
    seconds : float
        Wall time.
    private : bool
        Whether the noise protects anybody.
    """

    reference: str
    domain: str
    started: str
    trust: str
    aggregation: str
    mechanism: str
    adjacency: str
    unit: str
    epsilon: float
    delta: float
    delivered: float
    asked: int
    survivors: int
    dropouts: dict[str, int]
    records: float
    seconds: float
    private: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, schema versioned."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ReferenceReport:
        """Read what `to_dict` wrote.

        Raises
        ------
        ValueError
            If it has another schema.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(f"not a reference's report of schema {SCHEMA!r}")
        return cls(**{name: value for name, value in values.items() if name != "schema"})

    def __str__(self) -> str:
        return (
            f"reference {self.reference[:12]} from {self.records:.0f} records of {self.survivors} "
            f"of {self.asked} clients{aside(self.dropouts)}; ε = {self.delivered:.3g} per "
            f"{self.unit} ({self.adjacency}, {self.trust})"
        )
