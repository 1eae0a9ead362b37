"""Estimators of D_θ from noisy counts. They read public data only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from flwr_kld.inference.estimators.posterior_counts import posterior_counts
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.result import Estimate

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts


Estimator = Callable[..., Estimate]
"""Takes ``(counts, *, theta)``."""

ESTIMATORS: MappingProxyType[str, Estimator] = MappingProxyType(
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
    if counts.plan.reference.columns:
        raise ValueError(
            "a table has a divergence in each column: estimate counts.columns one by one"
        )
    if callable(estimator):
        return estimator(counts, theta=theta)
    if estimator not in ESTIMATORS:
        raise ValueError(f"unknown estimator {estimator!r}: choose from {sorted(ESTIMATORS)}")
    return ESTIMATORS[estimator](counts, theta=theta)
