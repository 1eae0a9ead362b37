"""What a report and Flower's metrics say of what was published: post-processing only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flwr_kld.counts import NoisyCounts
from flwr_kld.counts.scalar import NoisyScalar
from flwr_kld.errors import EstimateUndefined
from flwr_kld.inference.estimators import Estimator, estimate
from flwr_kld.reference import Reference
from flwr_kld.report import Outcome, Report
from flwr_kld.report.explanation import explain
from flwr_kld.report.explanation.candidates import fit_candidates
from flwr_kld.report.explanation.outside import outside_share

_MOVEMENTS = 8
"""Cells that a report names."""


def read(
    published: NoisyCounts | NoisyScalar,
    *,
    estimator: str | Estimator,
    theta: float,
    candidates: Mapping[str, Reference] | None = None,
    design_effect: float = 1.0,
) -> dict[str, Any]:
    """Return the fields of a `Report` that follow from the published values alone."""
    event, plan = published.event, published.plan
    if isinstance(published, NoisyScalar):
        reading = _read_scalar(published)
    else:
        reading = _read_counts(published, estimator, theta, design_effect)
        reading["outside"] = outside_share(published, design_effect=design_effect)
    return {
        **reading,
        "candidates": (
            fit_candidates(published, candidates)
            if candidates and isinstance(published, NoisyCounts)
            else {}
        ),
        "mechanism": event.mechanism,
        "adjacency": str(event.guarantee.adjacency),
        "unit": str(event.guarantee.unit),
        "private": published.private,
        "delivered": event.guarantee.epsilon if event.delivered is None else event.delivered,
        "records": published.records,
        "cells": plan.cells,
        "domain": plan.reference.domain.fingerprint,
        "reference": plan.reference.fingerprint,
        "plan": plan.fingerprint,
    }


def _read_scalar(published: NoisyScalar) -> dict[str, Any]:
    return {
        "estimate": published.value,
        "theta": published.theta,
        "estimator": "scalar",
        "target": "cohort",
        "sampling": None,
        "monte_carlo": None,
        "privacy": published.standard_deviation,
        "note": None,
        "noise": published.standard_deviation,
    }


def _read_counts(
    published: NoisyCounts, estimator: str | Estimator, theta: float, design_effect: float
) -> dict[str, Any]:
    noise = math.sqrt(published.noise.variance)
    try:
        reading = estimate(published, estimator=estimator, theta=theta)
    except EstimateUndefined as error:  # the budget is spent: say so instead of losing the check
        nothing = dict.fromkeys(("estimate", "sampling", "monte_carlo", "privacy", "target"))
        return {
            **nothing, "theta": theta, "estimator": str(estimator), "note": str(error),
            "noise": noise,
        }  # fmt: skip
    movements = explain(published, reading, most=_MOVEMENTS, design_effect=design_effect)
    return {
        "estimate": reading.value,
        "theta": reading.theta,
        "estimator": reading.estimator,
        "target": reading.target,
        "sampling": reading.error.sampling,
        "monte_carlo": reading.error.monte_carlo,
        "privacy": reading.error.privacy,
        "note": None,
        "noise": noise,
        "movements": tuple(movement.to_dict() for movement in movements),
    }


def metrics(report: Report) -> dict[str, Any]:
    """Return a report's ``kld.*`` metrics for Flower's Result."""
    values = {
        "kld.estimate": report.estimate,
        "kld.error": report.error,
        "kld.theta": report.theta,
        "kld.epsilon": report.epsilon,
        "kld.delta": report.delta,
        "kld.survivors": report.survivors,
        "kld.asked": report.asked,
        "kld.records": report.records,
        "kld.seconds": report.seconds,
        "kld.private": int(report.private),
        "kld.lower_bound": report.lower_bound,
        "kld.outside": report.outside_share,
        "kld.outside_lower": report.outside_lower,
        "kld.drift": None if report.outcome is None else int(report.outcome is Outcome.DRIFT),
        "kld.epsilon_left": report.epsilon_left,
    }
    return {name: value for name, value in values.items() if value is not None}
