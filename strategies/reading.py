"""From what was published to what a report and Flower's metrics say: post-processing only."""

from __future__ import annotations

import math
from typing import Any

from flwr_kld.counts import NoisyCounts
from flwr_kld.errors import EstimateUndefined
from flwr_kld.estimate import Estimator, estimate
from flwr_kld.report import Report
from flwr_kld.scalar import NoisyScalar


def read(
    published: NoisyCounts | NoisyScalar, *, estimator: str | Estimator, theta: float
) -> dict[str, Any]:
    """Return the fields of a `Report` that follow from the published values alone."""
    event, plan = published.event, published.plan
    if isinstance(published, NoisyScalar):
        reading = _read_scalar(published)
    else:
        reading = _read_counts(published, estimator, theta)
    return {
        **reading,
        "mechanism": event.mechanism,
        "adjacency": str(event.adjacency),
        "unit": str(event.unit),
        "private": published.private,
        "delivered": event.epsilon if event.delivered is None else event.delivered,
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
    published: NoisyCounts, estimator: str | Estimator, theta: float
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
    }
    return {name: value for name, value in values.items() if value is not None}
