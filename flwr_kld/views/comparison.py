"""View of what changed between two reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from flwr_kld.report.comparison import LEVEL, Change
from flwr_kld.report.words import shortened, shown
from flwr_kld.views.document import Document, rows_of
from flwr_kld.views.panels import Theme

_MOST = 3
"""Changes of a column that a table names, the largest."""
_ROWS = 25
"""Fractions that a plot shows: those that may have changed most."""


class ComparisonView(Document):
    """What a `Comparison` looks like."""

    heading: ClassVar[str] = "What changed"

    def about(self) -> Iterator[str]:
        """Yield which reports are compared."""
        yield f"Before: {self.report.before}."
        yield f"After: {self.report.after}."

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return what changed in each column, and what may have without being seen."""
        return ("column", "what changed"), [
            (shown(name), self._of(name, own)) for name, own in self.report.columns.items()
        ]

    def _of(self, name: str, own: Sequence[Change]) -> str:
        if clear := self.report.clear.get(name):
            return "; ".join(map(str, clear[:_MOST]))
        most = max((max(-one.low, one.high) for one in own if one.is_fraction), default=0.0)
        return f"no change beyond noise, which hides changes of up to {100 * most:.2g} points"

    def notes(self) -> Iterator[str]:
        """Yield how sure it is, and what it cost."""
        yield (
            f"Limits hold with {100 * LEVEL:g} %, for all values of a column at once. Chance "
            "among the records is allowed for."
        )
        yield (
            "Next: a check against a reference and a threshold decides whether that is too much."
            if self.report.clear
            else "Next: nothing to do."
        )
        yield "Privacy: it follows from the two reports, so it costs no further ε."

    def numbers(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each number."""
        for one in self.report.changes:
            yield {
                **asdict(one), "change": one.after - one.before, "clear": one.least > 0,
            }  # fmt: skip

    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""
        return (3.9 if narrow else 8.6), 1.1 + 0.24 * max(len(self._drawn), 1)

    @property
    def _drawn(self) -> list[Change]:
        """The fractions to draw, by column."""
        fractions = [one for own in self.report.columns.values() for one in own if one.is_fraction]
        most = sorted(fractions, key=lambda one: (-one.least, -abs(one.after - one.before)))
        return [one for one in fractions if one in most[:_ROWS]]

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw by how many points fractions changed, with their limits."""
        drawn = self._drawn
        names = [
            shortened(f"{shown(one.column)}: {one.name}", 18 if narrow else 45) for one in drawn
        ]
        with rows_of(figure, names, theme, narrow=narrow) as (axes, places):
            axes.axvline(0, color=theme.faint, linewidth=1)
            for one, place in zip(drawn, places, strict=True):
                colour = theme.alarm if one.least else theme.estimate
                axes.plot([100 * one.low, 100 * one.high], [place] * 2, color=colour)
                axes.plot(
                    [100 * (one.after - one.before)], [place], color=colour,
                    marker="D" if one.least else "o",
                )  # fmt: skip
            axes.set_xlabel(f"change in percentage points, with {100 * LEVEL:g} % limits")
