"""Checks as MLflow runs see them: metrics, tags and the whole report."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flwr_kld._extras import require
from flwr_kld.kernel.arguments import whole
from flwr_kld.report.prometheus import COLUMN_GAUGES, GAUGES
from flwr_kld.report.report import Report, drifted

_FORBIDDEN = re.compile(r"[^\w. /-]")
_LONGEST = 200
"""Characters of a column's name; MLflow takes 250 with what stands before it."""


def log_to_mlflow(report: Report, *, step: int | None = None) -> None:
    """Log a check to the MLflow run that is active, or to a new one.

    Metrics have the names of the Prometheus metrics, a column's with its name behind a slash:
    ``kld_column_divergence/air_time``. Characters that MLflow does not take become ``_``. The
    report itself is the artifact ``checks/ID.json``. All of it is published already: logging it
    costs no privacy.

    Parameters
    ----------
    report : Report
        A finished check.
    step : int, optional
        Position on MLflow's axis, for example the round of training.

    Raises
    ------
    ValueError
        If the step is not a whole number.
    ImportError
        If MLflow is not installed; names the extra.
    """
    step = None if step is None else whole("step", step)
    mlflow = require("mlflow", extra="mlflow")
    mlflow.log_metrics(_metrics(report), step=step)
    mlflow.set_tags({f"flwr_kld.{name}": text for name, text in _tags(report).items()})
    mlflow.log_dict(report.to_dict(), f"checks/{report.check}.json")


def _metrics(report: Report) -> dict[str, float]:
    known = {name: value_of(report) for name, (_, value_of) in GAUGES.items()}
    if report.is_table:
        known["kld_columns_drifted"] = len(drifted(report.columns))
        named = _distinct(report.columns)
        for part in report.by_column:
            for name, (_, value_of) in COLUMN_GAUGES.items():
                known[f"{name}/{named[part.column]}"] = value_of(part)
    return {name: float(value) for name, value in known.items() if value is not None}


def _distinct(columns: Mapping[str, object]) -> dict[str, str]:
    """Names that MLflow takes; two columns that would share one are numbered, in order of names."""
    taken: dict[str, str] = {}
    for column in sorted(columns):
        plain = name = _FORBIDDEN.sub("_", column)[:_LONGEST]
        number = 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken[name] = column
    return {column: name for name, column in taken.items()}


def _tags(report: Report) -> dict[str, str]:
    """Say what no plot shows, of the latest check: a tag has one value a run."""
    return {
        "outcome": str(report.outcome or "not decided"),
        "guarantee": str(report.guarantee),
        "private": str(report.protection.private).lower(),
    }
