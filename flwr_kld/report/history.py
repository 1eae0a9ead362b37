"""Checks over time: what plots, tables and files are made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flwr_kld.messages.json_text import json_text
from flwr_kld.report.report import Report


@dataclass(frozen=True)
class Check:
    """One check in a series.

    Parameters
    ----------
    number : int
        From 1.
    report : Report or None
        None if no number came out of the check: it failed, or has not ended.
    truth : float or None
        Exact divergence in nats, where a simulation knows it.
    failure : str or None
        Why there is no report, where that is known.
    started : str or None
        UTC, ISO 8601; by default as the report says.
    ended : bool
        False for a check that runs, or was cut off.
    """

    number: int
    report: Report | None
    truth: float | None = None
    failure: str | None = None
    started: str | None = None
    ended: bool = True

    def __post_init__(self) -> None:
        if self.started is None and self.report is not None:
            object.__setattr__(self, "started", self.report.started)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Check:
        """Read what `save_json` wrote, or a line of a simulation: ``round`` and ``report``."""
        report = values["report"]
        return cls(
            number=int(values["round"]),
            report=None if report is None else Report.from_dict(report),
            truth=values.get("truth"),
            failure=values.get("failure"),
            started=values.get("started"),
            ended=values.get("ended", True),
        )


_ELSEWHERE = ("started", "dropouts", "verdict", "outside", "movements", "candidates", "sight")
_COLUMNS = [field.name for field in fields(Report) if field.name not in _ELSEWHERE]
_COLUMNS += ["outcome", "lower_bound", "threshold", "outside_share", "outside_lower"]


def save_csv(checks: Sequence[Check], path: Path) -> None:
    """Write one row a check; divergences and errors in nats."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["number", "started", "ended", "truth", "failure", *_COLUMNS])
        for check in checks:
            values = [getattr(check.report, name, None) for name in _COLUMNS]
            known = (check.number, check.started, check.ended, check.truth, check.failure)
            rows.writerow([*known, *values])


def save_json(checks: Sequence[Check], path: Path) -> None:
    """Write all reports in full."""
    content = [
        {
            "round": c.number,
            "started": c.started,
            "ended": c.ended,
            "truth": c.truth,
            "failure": c.failure,
            "report": c.report and c.report.to_dict(),
        }
        for c in checks
    ]
    path.write_text(json_text(content, indent=2))
