"""From noised counts to the cells that moved most. Post-processing: it costs no privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flwr_kld.inference.estimators.result import Estimate
from flwr_kld.inference.fraction_interval import Floats, fraction_intervals, fraction_variance
from flwr_kld.inference.outside import OutsideCell, OutsideFraction
from flwr_kld.kernel.arguments import real, whole
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.report.explanation.cells import cell_name, only_symbol, outside_name


@dataclass(frozen=True)
class Movement:
    """How far one cell of a check lies from the reference. Everything in it is public."""

    name: str  # The cell in the domain's own words
    kind: str  # Kind of the domain, such as ``"block_patterns"``
    symbol: int | None  # The cell's symbol, where it holds only one
    symbols: int  # How many it holds
    reference: float  # Fraction of the records that the reference expects
    share: float  # Estimated fraction of the records, in [0, 1]
    deviation: float  # Standard deviation of that estimate, by sampling and noise
    # Difference from the expected count, in the standard deviations that it would have if the cell
    # had not moved
    z: float
    low: float  # Interval for the fraction that holds for all cells of the check at once
    high: float
    # Estimated part of the divergence, in nats, >= 0; the cells' parts add up to D_θ
    contribution: float
    # Part that it has at the end of the interval next to the reference, in nats; 0 if the reference
    # lies inside
    at_least: float

    @property
    def direction(self) -> str:
        """Whether there is ``"more"`` or ``"fewer"`` of it than the reference expects."""
        return "more" if self.z >= 0 else "fewer"

    @property
    def beyond_chance(self) -> bool:
        """Whether the reference lies outside the interval."""
        return not self.low <= self.reference <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, with direction and certainty."""
        return {
            **vars(self),
            "direction": self.direction,
            "beyond_chance": self.beyond_chance,
        }

    def __str__(self) -> str:
        sure = "" if self.beyond_chance else ", within chance"
        return (
            f"{self.direction} of {self.name}: {100 * self.share:.3g} % instead of "
            f"{100 * self.reference:.3g} % "
            f"(z = {self.z:+.1f}{sure})"
        )


def explain(
    counts: NoisyCounts,
    estimate: Estimate,
    *,
    most: int = 10,
    level: float = 0.95,
    design_effect: float = 1.0,
) -> list[Movement]:
    """Name the cells that moved most, those that moved beyond chance first.

    A cell's part of ``D_θ = KL(Π || M)``, ``M = (1 - θ) P + θ Π``, is ``Π ln(Π / M) + M - Π``:
    never negative, 0 only where P = Π, and the parts add up to D_θ because Π and M have the same
    total. Unlike ``Π ln(Π / M)`` it is positive for cells with more records, too.
    """
    plan, y, total = counts.plan, counts.values, counts.records
    level, most = real("level", level, above=0, below=1), whole("most", most, least=1)
    design_effect = real("design_effect", design_effect, least=1)
    low, high = fraction_intervals(counts, level=level, design_effect=design_effect)
    p, share = plan.mass, np.clip(y / total, 0.0, 1.0)
    unmoved = np.sqrt(fraction_variance(counts, p, design_effect=design_effect))
    z = (y / total - p) / unmoved
    contribution = _contribution(counts, estimate, unmoved)
    near = np.clip(p, low, high)
    at_least = np.where(near == p, 0.0, _part(near, p, estimate.theta))
    deviation = np.sqrt(fraction_variance(counts, share, design_effect=design_effect))
    symbols = only_symbol(plan)
    first = np.lexsort((-contribution, -at_least))[:most]
    return [
        Movement(
            name=cell_name(plan, c, int(symbols[c])),
            kind=plan.reference.domain.kind,
            symbol=int(symbols[c]) if symbols[c] >= 0 else None,
            symbols=int(plan.symbols_in[c]),
            reference=float(p[c]),
            share=float(share[c]),
            deviation=float(deviation[c]),
            z=float(z[c]),
            low=float(low[c]),
            high=float(high[c]),
            contribution=float(contribution[c]),
            at_least=float(at_least[c]),
        )
        for c in first.tolist()
    ]


def _part(share: Floats, p: Floats, theta: float) -> Floats:
    """Part of D_θ of cells with mass p in Π and these fractions in P, in nats, shape [cells]."""
    mixed = (1 - theta) * share + theta * p
    asked = p > 0
    with np.errstate(divide="ignore"):
        log = np.log(np.where(asked, p, 1.0)) - np.log(np.where(asked, mixed, 1.0))
    part: Floats = np.maximum(p * log + mixed - p, 0.0)
    return part


def _contribution(counts: NoisyCounts, estimate: Estimate, unmoved: Floats) -> Floats:
    """Estimated part of each cell, shape [cells].

    ``ln(M / Π)`` is the estimate's score of a scored cell. Others, which hold many symbols, are
    read as they are, moved to Π by the variance that they would have there (James and Stein).
    """
    plan, theta = counts.plan, estimate.theta
    p, scored = plan.mass, plan.weight > 0
    away = counts.values / counts.records - p
    kept = np.maximum(1 - unmoved**2 / np.maximum(away**2, 1e-300), 0.0)
    least = 0.0 if theta else 0.5 / counts.records  # half a record stands for none
    read = _part(np.maximum(p + kept * away, least), p, theta)
    score = estimate.contribution / np.where(scored, plan.weight, 1.0)
    told = p * (np.exp(-score) - 1 + score)
    return np.where(scored, told, read)


def outside_fraction(counts: NoisyCounts, *, design_effect: float = 1.0) -> OutsideFraction | None:
    """Estimate the fraction of records where Π is 0, and say what they are."""
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
    return OutsideFraction(*estimate(cells.tolist()), tuple(kinds))
