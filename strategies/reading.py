"""From what was published to what a report and Flower's metrics say: post-processing only."""

from __future__ import annotations

import math
from typing import Any

from flwr_kld.counts import NoisyCounts
from flwr_kld.estimate import estimate
from flwr_kld.report import Report
from flwr_kld.scalar import NoisyScalar


def read(published: NoisyCounts | NoisyScalar, *, estimator: str, theta: float) -> dict[str, Any]:
    """Return the fields of a `Report` that follow from the published values alone."""
    event, plan = published.event, published.plan
    if isinstance(published, NoisyScalar):
        reading = {
            "estimate": published.value,
            "theta": published.theta,
            "estimator": "scalar",
            "sampling": None,
            "monte_carlo": None,
            "privacy": published.standard_deviation,
            "noise": published.standard_deviation,
        }
    else:
        estimated = estimate(published, estimator=estimator, theta=theta)
        reading = {
            "estimate": estimated.value,
            "theta": estimated.theta,
            "estimator": estimated.estimator,
            "sampling": estimated.error.sampling,
            "monte_carlo": estimated.error.monte_carlo,
            "privacy": estimated.error.privacy,
            "noise": math.sqrt(published.noise.variance),
        }
    return {
        **reading,
        "mechanism": event.mechanism,
        "adjacency": str(event.adjacency),
        "unit": str(event.unit),
        "private": published.private,
        "records": published.records,
        "cells": plan.cells,
        "domain": plan.reference.domain.fingerprint,
        "reference": plan.reference.fingerprint,
        "plan": plan.fingerprint,
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
