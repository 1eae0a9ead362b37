"""Views of the labels that a discovery found: text, page, frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from flwr_kld.common.durable_files import put_in_place
from flwr_kld.common.extras import require
from flwr_kld.report.discovery_report import DiscoveryReport, FoundLabel
from flwr_kld.report.words import aside, shown
from flwr_kld.views.series import require_form
from flwr_kld.views.text import WIDTH, privacy, when


@dataclass(frozen=True)
class Discovery:
    """What a `DiscoveryReport` looks like."""

    report: DiscoveryReport

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield it in lines."""
        report, found = self.report, self.report.reading
        cohort = report.cohort
        yield report.summary
        yield from wrap(
            f"Asked {when(report.started)} UTC: {cohort.survivors} of {cohort.asked} clients"
            f"{aside(cohort.dropouts)}.",
            width,
        )
        for label in found.labels:
            yield f"  {_name(label)}: {_records(label)}"
        yield from wrap(
            f"A label is found with probability .95 from {found.found_from} records on. No number "
            f"below {found.shown_from} is shown, though fewer records may have a label.",
            width,
        )
        yield from wrap(f"Privacy: {privacy(report)}", width)
        if note := report.one_client.note:
            yield from wrap(note, width)

    def to_frame(self) -> Any:
        """Return a row a label as a pandas data frame."""
        frames = require("pandas", extra="frames")
        return frames.DataFrame(map(asdict, self.report.reading.labels))

    def save(self, file: str | Path) -> None:
        """Write all of it, .json; `ValueError` for another ending."""
        put_in_place(require_form(file, (".json",)), self.report.to_json().encode())


def _name(label: FoundLabel) -> str:
    return f"{shown(label.name)}… (it may be longer)" if label.may_go_on else shown(label.name)


def _records(label: FoundLabel) -> str:
    """Write in how many records a label is: ``40 records (31 to 49)``."""
    return f"{label.records:.0f} records ({max(label.low, 1):.0f} to {label.high:.0f})"
