"""Report of unlisted labels: which were found, and from how many records on they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flwr_kld.kernel.selection import LONGEST
from flwr_kld.report.envelope import Envelope, OneClient, Protection
from flwr_kld.report.words import brief, counted

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


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscoveryReport(Envelope):
    """The labels of a column that nobody listed. Everything in it is public."""

    kind: ClassVar[str] = "discovery"

    reading: Discovered
    protection: Protection  # How counts were protected
    one_client: OneClient  # How much of the records a single client can hold

    @property
    def summary(self) -> str:
        """What was found, in one line."""
        column, found = brief(self.reading.column), self.reading.labels
        if not found:
            return f"No unlisted label of {column} in {self.reading.found_from} records or more."
        labels = counted(len(found), "unlisted label")
        return f"Found {labels} of {column}, first {brief(found[0].name)}."
