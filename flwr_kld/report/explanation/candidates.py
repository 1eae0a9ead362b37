"""Towards which named distributions clients have moved. Post-processing: it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flwr_kld.kernel.arguments import instance
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.reference import Reference

REFERENCE = "as the reference"
"""Name of what has not moved."""
_ROUNDS = 5
"""Of reweighting; the weights change by less than 1e-3 after two."""
_SUM = 1e4
"""Weight of the equation that the proportions sum to 1."""


def fit_candidates(counts: NoisyCounts, candidates: Mapping[str, Reference]) -> dict[str, float]:
    """Explain the counts by a mixture of the reference and the candidates.

    Finds proportions ``v >= 0``, ``Σ v = 1``, whose mixture ``N Σ v_j P_j`` is nearest to the
    counts in weighted least squares, with the variance that the mixture itself and the noise have
    (iteratively reweighted). A posterior over the candidates would be certain of the least wrong
    one, however little it fits; proportions stay even where the truth lies between two.
    """
    from scipy.optimize import nnls  # imported here: it takes half a second

    plan = counts.plan
    require_candidates(candidates, plan.reference)
    laws = [plan.reference, *candidates.values()]
    expected = counts.records * np.stack(
        [np.bincount(plan.cell_of, law.probabilities, plan.cells) for law in laws], axis=1
    )
    proportions = np.full(len(laws), 1 / len(laws))
    for _ in range(_ROUNDS):
        deviation = np.sqrt(np.maximum(expected @ proportions, 0.5) + counts.noise.variance)
        rows = np.vstack([expected / deviation[:, None], np.full(len(laws), _SUM)])
        proportions, _ = nnls(rows, np.append(counts.values / deviation, _SUM))
        proportions = proportions / proportions.sum()
    return dict(zip((REFERENCE, *candidates), proportions.tolist(), strict=True))


def require_candidates(candidates: Mapping[str, Reference], reference: Reference) -> None:
    """Raise ValueError unless there are candidates, all over the reference's domain."""
    instance("candidates", candidates, Mapping, "a mapping of names to references")
    if not candidates or REFERENCE in candidates:
        raise ValueError(f"name at least one candidate distribution, and call none {REFERENCE!r}")
    for name, candidate in candidates.items():
        instance(f"candidate {name!r}", candidate, Reference, "a Reference")
        if candidate.domain != reference.domain:
            raise ValueError(f"candidate {name!r} is over another domain than the reference")
