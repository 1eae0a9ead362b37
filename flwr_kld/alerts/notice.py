"""What people are told: that something began, or that it is over; published values alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class About(StrEnum):
    """What a notice is about."""

    DRIFT = "drift"
    """The last check that decided found a drift."""
    SILENCE = "silence"
    """No check has had a number for some slots."""
    BUDGET = "budget"
    """The budget has no room for the next check."""
    DROPOUTS = "dropouts"
    """Many of the clients that were asked are not in the sum."""


@dataclass(frozen=True)
class Notice:
    """One thing to tell."""

    about: About  # What it is about
    population: str  # Whose
    # False if it holds, True if it does not: told to those only who were told that it did
    over: bool
    title: str  # A line
    lines: tuple[str, ...] = ()  # What else a reader should know
    link: str | None = None  # Where more is to be seen

    @property
    def key(self) -> str:
        """Name under which receivers know beginning and end as one."""
        return f"flwr-kld/{self.population}/{self.about}"

    @property
    def text(self) -> str:
        """All of it, for people."""
        return "\n".join((self.title, *self.lines, *([self.link] if self.link else ())))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return {
            "about": str(self.about),
            "population": self.population,
            "over": self.over,
            "title": self.title,
            "lines": list(self.lines),
            "link": self.link,
            "key": self.key,
        }
