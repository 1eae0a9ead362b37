"""A predictor's rounds over time: what plots, tables and files are made from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from flwr_kld.messages.json_text import json_text
from flwr_kld.report.predictor_report import PredictorReport


@dataclass(frozen=True)
class Round:
    """One round in a series.

    Parameters
    ----------
    number : int
        From 1.
    report : PredictorReport or None
        None if the round taught nothing: it failed, or has not ended.
    failure : str or None
        Why there is no report, where that is known.
    started : str or None
        UTC, ISO 8601; by default as the report says.
    ended : bool
        False for a round that runs, or was cut off.
    """

    number: int
    report: PredictorReport | None
    failure: str | None = None
    started: str | None = None
    ended: bool = True

    def __post_init__(self) -> None:
        if self.started is None and self.report is not None:
            object.__setattr__(self, "started", self.report.started)


_ELSEWHERE = ("started", "weights", "mixture", "rejected")
_COLUMNS = [field.name for field in fields(PredictorReport) if field.name not in _ELSEWHERE]


def candidates_of(rounds: Sequence[Round]) -> list[str]:
    """Names of all candidates, in their own order."""
    return list(dict.fromkeys(name for r in rounds if r.report for name in r.report.weights))


def save_rounds_csv(rounds: Sequence[Round], path: Path) -> None:
    """Write one row a round: log-odds, bounds and epsilons in nats, and a column a weight."""
    names = candidates_of(rounds)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        weights_of = [f"weight of {name}" for name in names]
        rows.writerow(["number", "started", "ended", "failure", *_COLUMNS, *weights_of])
        for r in rounds:
            values = [getattr(r.report, name, None) for name in _COLUMNS]
            weights = r.report.weights if r.report else {}
            known = (r.number, r.started, r.ended, r.failure)
            rows.writerow([*known, *values, *map(weights.get, names)])


def save_rounds_json(rounds: Sequence[Round], path: Path) -> None:
    """Write all reports in full."""
    content = [
        {
            "round": r.number,
            "started": r.started,
            "ended": r.ended,
            "failure": r.failure,
            "report": r.report and r.report.to_dict(),
        }
        for r in rounds
    ]
    path.write_text(json_text(content, indent=2))
