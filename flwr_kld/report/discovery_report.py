"""Which labels nobody listed, and from how many records on they are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flwr_kld.kernel.selection import LONGEST
from flwr_kld.report.envelope import Envelope, Protection
from flwr_kld.report.report import OneClient
from flwr_kld.report.words import shown

_LETTER = 4
"""Bytes of a letter in UTF-8, at most."""


@dataclass(frozen=True)
class FoundLabel:
    """A label that many records share."""

    name: str
    records: float  # Estimate; where labels were told by their texts, the noised count
    low: float  # 95 % interval, for the noise; of labels that are shown where texts were told
    high: float

    @property
    def may_go_on(self) -> bool:
        """Whether longer labels may begin so: as many whole letters are told as there is room."""
        return len(self.name.encode(errors="replace")) > LONGEST - _LETTER


@dataclass(frozen=True)
class Discovered:
    """What was found in a column."""

    column: str
    labels: tuple[FoundLabel, ...]  # The most frequent first
    # With a label that nobody listed, estimate; None where labels were told by their texts
    records: float | None
    shown_from: float  # Records below which no estimate is shown
    # Records from which a label is found with probability .95, by its most bytes in UTF-8
    found_from: dict[str, float]

    @property
    def named(self) -> str:
        """How many records have an unlisted label, and which share of them these labels are of."""
        if self.records is None:
            return ""
        share = min(sum(label.records for label in self.labels) / max(self.records, 1.0), 1.0)
        return f"; about {max(self.records, 0):.0f} records have one, {share:.0%} of them these"


@dataclass(frozen=True, kw_only=True)
class DiscoveryReport(Envelope):
    """The labels of a column that nobody listed. Everything in it is public."""

    kind: ClassVar[str] = "discovery"

    reading: Discovered
    protection: Protection  # How counts were protected
    one_client: OneClient  # How much of the records a single client can hold

    def __str__(self) -> str:
        promise, found = self.guarantee, self.reading
        names = ", ".join(
            f"{shown(one.name)}{'…' if one.may_go_on else ''} "
            f"({one.records:.0f}, {max(one.low, 1):.0f} to {one.high:.0f})"
            for one in found.labels
        )
        if any(one.may_go_on for one in found.labels):
            names += "; what ends in … may be longer"
        needed = "; ".join(
            f"{n:.0f} for up to {size} bytes" for size, n in found.found_from.items()
        )
        return (
            f"unlisted labels of {shown(found.column)}: {names or 'none found'}{found.named}. A "
            f"label is found with probability .95 from about so many records on: {needed}; no "
            f"estimate below {found.shown_from:.0f} is shown, though fewer records may have one. "
            f"{self.cohort}; ε = {self.cost.epsilon:.3g} "
            f"per {promise.unit} ({promise.adjacency}, {self.protection.trust})"
            f"{'; ' + note if (note := self.one_client.note) else ''}"
        )
