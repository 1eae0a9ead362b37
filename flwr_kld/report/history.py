"""Checks over time: what plots, tables and files are made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flwr_kld._json import json_text
from flwr_kld.report.report import Report


@dataclass(frozen=True)
class Check:
    """One check in a series.

    Parameters
    ----------
    number : int
        From 1.
    report : Report or None
        None if the check failed: no number came out of it.
    truth : float or None
        Exact divergence in nats, where a simulation knows it.
    failure : str or None
        Why there is no report, where that is known.
    """

    number: int
    report: Report | None
    truth: float | None = None
    failure: str | None = None

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Check:
        """Read a line that a simulation wrote: ``round``, ``report``, ``truth``, ``failure``."""
        report = values["report"]
        return cls(
            number=int(values["round"]),
            report=None if report is None else Report.from_dict(report),
            truth=values.get("truth"),
            failure=values.get("failure"),
        )


_NESTED = ("dropouts", "verdict", "movements", "candidates")
_COLUMNS = [field.name for field in fields(Report) if field.name not in _NESTED]
_COLUMNS += ["outcome", "lower_bound", "threshold"]


def save_csv(checks: Sequence[Check], path: Path) -> None:
    """Write one row a check; divergences and errors in nats."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["number", "truth", "failure", *_COLUMNS])
        for check in checks:
            values = [getattr(check.report, name, None) for name in _COLUMNS]
            rows.writerow([check.number, check.truth, check.failure, *values])


def save_json(checks: Sequence[Check], path: Path) -> None:
    """Write all reports in full."""
    content = [
        {
            "round": c.number,
            "truth": c.truth,
            "failure": c.failure,
            "report": c.report and c.report.to_dict(),
        }
        for c in checks
    ]
    path.write_text(json_text(content, indent=2))
