"""A predictor's rounds over time: what plots, tables and files are made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from flwr_kld._json import json_text
from flwr_kld.report.predictor_report import PredictorReport


@dataclass(frozen=True)
class Round:
    """One round in a series.

    Parameters
    ----------
    number : int
        From 1.
    report : PredictorReport or None
        None if the round failed: it taught nothing.
    failure : str or None
        Why there is no report, where that is known.
    """

    number: int
    report: PredictorReport | None
    failure: str | None = None


_NESTED = ("weights", "mixture", "rejected")
_COLUMNS = [field.name for field in fields(PredictorReport) if field.name not in _NESTED]


def candidates_of(rounds: Sequence[Round]) -> list[str]:
    """Names of all candidates, in their own order."""
    return list(dict.fromkeys(name for r in rounds if r.report for name in r.report.weights))


def save_rounds_csv(rounds: Sequence[Round], path: Path) -> None:
    """Write one row a round: log-odds, bounds and epsilons in nats, and a column a weight."""
    names = candidates_of(rounds)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["number", "failure", *_COLUMNS, *(f"weight of {name}" for name in names)])
        for r in rounds:
            values = [getattr(r.report, name, None) for name in _COLUMNS]
            weights = r.report.weights if r.report else {}
            rows.writerow([r.number, r.failure, *values, *map(weights.get, names)])


def save_rounds_json(rounds: Sequence[Round], path: Path) -> None:
    """Write all reports in full."""
    content = [
        {"round": r.number, "failure": r.failure, "report": r.report and r.report.to_dict()}
        for r in rounds
    ]
    path.write_text(json_text(content, indent=2))
