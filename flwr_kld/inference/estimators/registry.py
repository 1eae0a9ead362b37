"""Estimators of D_θ from noisy counts. They read public data only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from flwr_kld.errors import EstimateUndefined
from flwr_kld.inference.estimators.posterior_counts import posterior_counts
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.result import ErrorSplit, Estimate
from flwr_kld.kernel.arguments import real

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts

Estimator = Callable[..., Estimate | tuple[float, float]]
"""Takes ``(counts, *, theta)``; returns an `Estimate`, or D_θ of the cohort and its deviation."""

ESTIMATORS: MappingProxyType[str, Callable[..., Estimate]] = MappingProxyType(
    {"posterior_counts": posterior_counts, "posterior_ratios": posterior_ratios}
)
"""Estimators by name."""


def name_of(estimator: str | Estimator) -> str:
    """Return an estimator's name; that of its function where it has options of its own."""
    if isinstance(estimator, str):
        return estimator
    function = estimator.func if isinstance(estimator, partial) else estimator
    return getattr(function, "__name__", type(function).__name__)


def estimate(
    counts: NoisyCounts, *, estimator: str | Estimator = "posterior_counts", theta: float = 0.01
) -> Estimate:
    """Estimate D_θ = KL(Π || (1 - θ) P + θ Π) in nats from noisy counts."""
    # Whatever an estimator of somebody's own raises is an `EstimateUndefined`: the counts are paid
    # for, and stay valid.
    if counts.plan.reference.is_table:
        raise ValueError(
            "a table has a divergence in each column: estimate counts.columns one by one"
        )
    if not callable(estimator) and estimator not in ESTIMATORS:
        raise ValueError(f"unknown estimator {estimator!r}: choose from {sorted(ESTIMATORS)}")
    if not callable(estimator):
        return ESTIMATORS[estimator](counts, theta=theta)
    name = name_of(estimator)
    try:
        told = estimator(counts, theta=theta)
        if isinstance(told, Estimate):
            return told
        value, deviation = told
        value = real("its value", value, unit="nats")
        deviation = real("its deviation", deviation, least=0, unit="nats")
    except EstimateUndefined:
        raise
    except Exception as error:  # somebody's own; all that it saw is public
        raise EstimateUndefined(
            f"{name} gave neither an Estimate nor a value and its deviation "
            f"({type(error).__name__}: {error})"
        ) from error
    split = ErrorSplit(sampling=0.0, monte_carlo=0.0, privacy=deviation)
    return Estimate(value, theta, name, "cohort", split)
