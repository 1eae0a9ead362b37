"""What files hold of a check, value by value, in the columns of a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from flwr_kld.report.report import Report

_PATHS = {
    "check": "check", "theta": "reading.theta",
    "estimator": "reading.estimator", "target": "reading.target", "sampling": "reading.sampling",
    "monte_carlo": "reading.monte_carlo", "privacy": "reading.privacy", "note": "reading.note",
    "trust": "protection.trust", "aggregation": "protection.aggregation",
    "mechanism": "protection.mechanism", "adjacency": "guarantee.adjacency",
    "unit": "guarantee.unit", "epsilon": "guarantee.epsilon", "delta": "guarantee.delta",
    "delivered": "cost.epsilon", "noise": "protection.noise", "private": "protection.private",
    "asked": "cohort.asked", "survivors": "cohort.survivors", "records": "reading.records",
    "cells": "compared.cells", "domain": "compared.domain", "reference": "compared.reference",
    "plan": "compared.plan", "seconds": "cost.seconds",
    "asking": "cost.asking", "waiting": "cost.waiting", "computing": "cost.computing",
    "bytes_down": "cost.bytes_down",
    "bytes_up": "cost.bytes_up", "key": "key", "ledger_population": "cost.population",
    "epsilon_left": "cost.left", "epsilon_budget": "cost.budget", "outcome": "outcome",
    "lower_bound": "lower_bound", "upper_limit": "upper_limit",
}  # fmt: skip
VALUES: dict[str, Callable[[Report], Any]] = {
    "population_estimate": lambda r: r.reading.of_population and r.reading.of_population.value,
    "population_deviation": lambda r: r.reading.of_population and r.reading.of_population.deviation,
    "cohort_estimate": lambda r: r.reading.of_cohort and r.reading.of_cohort.value,
    "cohort_deviation": lambda r: r.reading.of_cohort and r.reading.of_cohort.deviation,
    "drawn_from": attrgetter("reading.drawn_from"),
    "counted": attrgetter("reading.counted"),
    **{name: attrgetter(path) for name, path in _PATHS.items()},
    "decided_population": lambda r: r.verdict and r.verdict.population,
    "threshold": lambda r: r.verdict and r.verdict.threshold,
    "resolve": lambda r: r.verdict and r.verdict.resolve,
    "evidence": lambda r: r.verdict and r.verdict.evidence,
    "alarm_at": lambda r: r.verdict and r.verdict.alarm_at,
    "outside_share": lambda r: r.reading.outside and r.reading.outside.share,
    "outside_lower": lambda r: r.verdict and r.verdict.outside_lower,
}
"""What files have a column of, and where a report holds it."""
OF_COLUMN: dict[str, Callable[[Report], Any]] = {
    "column": attrgetter("column"),
    "sentence": lambda r: _column(r, "sentence"),
    "psi": lambda r: _column(r, "figures.psi.value"),
    "jensen_shannon": lambda r: _column(r, "figures.jensen_shannon.value"),
    "total_variation": lambda r: _column(r, "figures.total_variation.value"),
    "hellinger": lambda r: _column(r, "figures.hellinger.value"),
    "wasserstein": lambda r: _column(r, "figures.ordered.wasserstein.value"),
    "accuracy": lambda r: _column(r, "calibration.accuracy.value"),
    "calibration_error": lambda r: _column(r, "calibration.error.value"),
}
"""What there is besides of one column of a table."""


def _column(report: Report, path: str) -> Any:
    """Return a value of a report's only column; None where it has none."""
    found: Any = report.columns.get(report.column or "")
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return found
