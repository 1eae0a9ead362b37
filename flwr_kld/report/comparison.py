"""What changed between two reports of the same table: post-processing, at no further cost.

Each report has intervals of its numbers. If both hold, a difference lies between the least and the
most that their ends allow, whatever the two have in common: the same records under another noise,
or two nights of a session whose noise is correlated. Each of the two fails with 5 % at most, so
both hold with 90 %. Where the errors are independent, that is more than needed, and wide. Limits
allow for chance among the records, too: last month's are others, although nothing has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flwr_kld.common.report_views import Viewed
from flwr_kld.report.words import brief, counted, in_digits, shown

LEVEL = 0.9
"""Confidence of a difference of two intervals of 95 %."""
FRACTION = "fraction "
"""Begins the name of a number that is a fraction of the records."""


@dataclass(frozen=True)
class Change:
    """One number in both reports. Everything in it is public."""

    column: str
    group: str  # Of statistics that are read by group; empty for all records
    number: str  # ``"fraction 60 and over"``, ``"mean"``
    before: float  # Estimates; fractions in [0, 1], all else in the column's unit
    after: float
    low: float  # Limits of the second less the first
    high: float

    @property
    def least(self) -> float:
        """How far it moved at least, either way; 0 if it may not have."""
        return max(self.low, -self.high, 0.0)

    @property
    def is_fraction(self) -> bool:
        """Whether it is a fraction of the records."""
        return self.number.startswith(FRACTION)

    @property
    def name(self) -> str:
        """Which number of which group, in brief."""
        number = shown(self.number.removeprefix(FRACTION))
        return f"{self.group}: {number}" if self.group else number

    def __str__(self) -> str:
        """Write it: ``60 and over: 40 % → 48 % (+5 to +11 points)``."""
        per, points = (100, " points") if self.is_fraction else (1, "")
        ends = in_digits(*(per * x for x in (self.after - self.before, self.low, self.high)))[1:]
        low, high = (end if end.startswith("-") else f"+{end}" for end in ends)
        return f"{self.name}: {self.values} ({low} to {high}{points})"

    @property
    def values(self) -> str:
        """Both values: ``40 % → 48 %``."""
        per, unit, digits = (100, " %", ".1f") if self.is_fraction else (1, "", ".4g")
        return " → ".join(f"{per * x:{digits}}{unit}" for x in (self.before, self.after))


Numbers = Mapping[tuple[str, str, str], tuple[float, float, float]]
"""Value and limits by column, group and number."""


@dataclass(frozen=True, repr=False)
class Comparison(Viewed):
    """What changed between two reports. Everything in it is public."""

    before: str  # Which reports: when, and of whom
    after: str
    changes: tuple[Change, ...]  # Of every number that both have, in the later report's order

    @classmethod
    def of(cls, before: str, after: str, earlier: Numbers, later: Numbers) -> Comparison:
        """Take the differences of two reports' numbers."""
        changes = tuple(
            Change(
                *key, earlier[key][0], value,
                low=low - earlier[key][2], high=high - earlier[key][1],
            )
            for key, (value, low, high) in later.items()
            if key in earlier
        )  # fmt: skip
        return cls(before, after, changes)

    @property
    def columns(self) -> dict[str, tuple[Change, ...]]:
        """The changes of each column, the column first whose records changed most for certain."""
        names = dict.fromkeys(one.column for one in self.changes)
        of = {name: tuple(one for one in self.changes if one.column == name) for name in names}

        def moved(own: Iterable[Change]) -> float:
            return max((one.least for one in own if one.is_fraction), default=0.0)

        return dict(sorted(of.items(), key=lambda own: -moved(own[1])))

    @property
    def clear(self) -> dict[str, tuple[Change, ...]]:
        """Those that are beyond chance and noise, of each column that has any, largest first."""
        found = {name: [one for one in own if one.least] for name, own in self.columns.items()}
        return {
            name: tuple(
                sorted(own, key=lambda one: (one.number != "mean", not one.is_fraction, -one.least))
            )
            for name, own in found.items()
            if own
        }

    @property
    def summary(self) -> str:
        """What changed most, in one line."""
        clear, of = self.clear, counted(len(self.columns), "column")
        if not clear:
            return f"No change beyond chance and noise in {of}."
        name, (first, *_) = next(iter(clear.items()))
        which = brief(name) if len(clear) == 1 else f"{len(clear)} of {of}, first {brief(name)}"
        what = brief(first.name)
        return f"Changed: {which}. {what[:1].upper()}{what[1:]}: {first.values}."

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return asdict(self)
