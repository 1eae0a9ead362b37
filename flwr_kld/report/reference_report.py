"""How a reference was made of a federation's counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flwr_kld.report.envelope import Envelope, Protection
from flwr_kld.report.report import OneClient


@dataclass(frozen=True)
class Made:
    """What was made."""

    reference: str  # Fingerprints
    domain: str
    records: float  # Number of records in the histogram


@dataclass(frozen=True, kw_only=True)
class ReferenceReport(Envelope):
    """How a reference was made. Everything in it is public."""

    kind: ClassVar[str] = "reference"

    reading: Made  # What the reference is made of
    protection: Protection  # How counts were protected
    one_client: OneClient  # How much of the reference a single client can be

    def __str__(self) -> str:
        promise, made = self.guarantee, self.reading
        return (
            f"reference {made.reference[:12]} from {made.records:.0f} records of {self.cohort}; "
            f"ε = {self.cost.epsilon:.3g} per {promise.unit} ({promise.adjacency}, "
            f"{self.protection.trust})"
            f"{'; ' + note if (note := self.one_client.note) else ''}"
        )
