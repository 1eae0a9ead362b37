"""View of the labels that a discovery found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from flwr_kld.report.discovery_report import FoundLabel
from flwr_kld.report.words import aside, shortened, shown, when
from flwr_kld.views.document import Document, rows_of
from flwr_kld.views.panels import Theme
from flwr_kld.views.text import privacy


class Discovery(Document):
    """What a `DiscoveryReport` looks like."""

    heading: ClassVar[str] = "Labels that nobody listed"

    def about(self) -> Iterator[str]:
        """Yield when it was asked, and whom."""
        cohort = self.report.cohort
        yield (
            f"Asked {when(self.report.started)} UTC: {cohort.survivors} of {cohort.asked} clients"
            f"{aside(cohort.dropouts)}."
        )

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """Return the labels and their records."""
        labels = self.report.reading.labels
        return ("label", "records"), [(_name(one), _records(one)) for one in labels]

    def notes(self) -> Iterator[str]:
        """Yield what is found, and what is not shown."""
        found = self.report.reading
        yield (
            f"A label is found with probability .95 from {found.found_from} records on. No number "
            f"below {found.shown_from} is shown, though fewer records may have a label."
        )
        yield f"Privacy: {privacy(self.report)}"
        if note := self.report.one_client.note:
            yield note

    def numbers(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each label."""
        return map(asdict, self.report.reading.labels)

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw how many records have each label."""
        labels = self.report.reading.labels
        names = [shortened(_name(one), 15 if narrow else 40) for one in labels]
        with rows_of(figure, names, theme, narrow=narrow) as (axes, places):
            for one, place in zip(labels, places, strict=True):
                axes.plot([max(one.low, 1), one.high], [place] * 2, color=theme.estimate)
                axes.plot([one.records], [place], color=theme.estimate, marker="o")
            axes.set_xlim(left=0)
            axes.set_xlabel("records, with 95 % intervals")


def _name(label: FoundLabel) -> str:
    return f"{shown(label.name)}… (it may be longer)" if label.may_go_on else shown(label.name)


def _records(label: FoundLabel) -> str:
    """Write in how many records a label is: ``40 (31 to 49)``."""
    return f"{label.records:.0f} ({max(label.low, 1):.0f} to {label.high:.0f})"
