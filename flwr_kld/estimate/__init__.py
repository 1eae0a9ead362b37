"""Estimators of D_θ from noisy counts. They read public data only."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING

from flwr_kld.estimate.paper import paper
from flwr_kld.estimate.posterior_counts import posterior_counts
from flwr_kld.estimate.result import ErrorSplit, Estimate
from flwr_kld.estimate.skew_plugin import skew_plugin

if TYPE_CHECKING:
    from flwr_kld.counts import NoisyCounts

__all__ = ["ESTIMATORS", "ErrorSplit", "Estimate", "estimate"]

ESTIMATORS: MappingProxyType[str, Callable[..., Estimate]] = MappingProxyType(
    {"posterior_counts": posterior_counts, "skew_plugin": skew_plugin, "paper": paper}
)
"""Estimators by name; each takes (counts, *, theta)."""


def estimate(
    counts: NoisyCounts, *, estimator: str = "posterior_counts", theta: float = 0.01
) -> Estimate:
    """Estimate D_θ = KL(Π || (1 - θ) P + θ Π) in nats from noisy counts.

    Parameters
    ----------
    counts : NoisyCounts
        Public counts of one check.
    estimator : str
        A name in `ESTIMATORS`.
    theta : float
        In [0, 1). D_θ is at most ln(1/θ). Default 0.01.

    Raises
    ------
    ValueError
        If the name is unknown, theta is out of range, or D_θ has no finite estimate.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"unknown estimator {estimator!r}: choose from {sorted(ESTIMATORS)}")
    return ESTIMATORS[estimator](counts, theta=theta)
