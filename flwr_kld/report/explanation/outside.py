"""From noised counts to the share of records outside the reference. Costs no privacy."""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.inference.outside_share import OutsideCell, OutsideShare
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.report.explanation.cell_names import only_symbol, outside_name


def outside_share(counts: NoisyCounts, *, design_effect: float = 1.0) -> OutsideShare | None:
    """Estimate the share of records where Π is 0, and say what they are.

    Parameters
    ----------
    counts : NoisyCounts
        A check's counts, noised.
    design_effect : float
        >= 1: variance of a share over cohorts of these clients, relative to records drawn
        independently.

    Returns
    -------
    OutsideShare or None
        None if the reference gives every symbol a mass.
    """
    plan, total = counts.plan, counts.records
    cells = np.flatnonzero(plan.outside)
    if not len(cells):
        return None

    def estimate(which: list[int]) -> tuple[float, float]:
        share = float(np.clip(counts.values[which].sum() / total, 0.0, 1.0))
        noise = counts.noise.variance * len(which)
        if (
            counts.event.guarantee.adjacency is Adjacency.ADD_REMOVE
        ):  # N is the sum of the noisy counts
            noise += counts.noise.variance * (plan.cells * share**2 - 2 * len(which) * share)
        sampling = design_effect * share * (1 - share) / total
        return share, math.sqrt(sampling + max(noise, 0.0) / total**2)

    symbols = only_symbol(plan)
    kinds = [
        OutsideCell(outside_name(plan, c, int(symbols[c])), *estimate([c])) for c in cells.tolist()
    ]
    kinds.sort(key=lambda kind: -kind.share)
    return OutsideShare(*estimate(cells.tolist()), tuple(kinds))
