"""Report of unlisted labels: which were found, and from how many records on they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flwr_kld.kernel.selection import LONGEST
from flwr_kld.report.envelope import Envelope, OneClient, Protection
from flwr_kld.report.words import shown

_LETTER = 4
"""Bytes of a letter in UTF-8, at most."""


@dataclass(frozen=True)
class FoundLabel:
    """A label that many records share."""

    name: str
    records: float  # The noised count
    low: float  # 95 % interval of labels that are shown, for the noise
    high: float

    @property
    def may_go_on(self) -> bool:
        """Whether longer labels may begin so: as many whole letters are sent as there is room."""
        return len(self.name.encode(errors="replace")) > LONGEST - _LETTER


@dataclass(frozen=True)
class Discovered:
    """What was found in a column."""

    column: str
    labels: tuple[FoundLabel, ...]  # The most frequent first
    shown_from: int  # Noised count below which no label is shown
    found_from: int  # Records from which a label is shown with probability .95


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
        return (
            f"unlisted labels of {shown(found.column)}: {names or 'none found'}. A label is found "
            f"with probability .95 from {found.found_from} records on; no number below "
            f"{found.shown_from} is shown, though fewer records may have a label. "
            f"{self.cohort}; ε = {self.cost.epsilon:.3g} "
            f"per {promise.protected} ({self.protection.trust})"
            f"{'; ' + note if (note := self.one_client.note) else ''}"
        )
