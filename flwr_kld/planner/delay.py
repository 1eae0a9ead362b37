"""How soon evidence over checks finds a drift, by checks that nobody has run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.bets import Bet
from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.e_detector import EDetector
from flwr_kld.inference.verdict import Delay
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import NUMBERS
from flwr_kld.kernel.law import NoiseTable, SeededBits
from flwr_kld.planner.drift import Drift, Law
from flwr_kld.planner.setting import draw_cohorts, published
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.reference import Reference

_WITNESSES = 8
"""First halves that are drawn."""


@dataclass(frozen=True)
class Growth:
    """What a check adds to the logarithm of the evidence while a drift lasts, in nats."""

    mean: float  # Over checks, each with a witness of its own
    deviation: float


def expected_delays(
    detector: EDetector,
    divergences: Iterable[float],
    reference: Reference,
    theta: float,
    growth: Callable[[Law], Growth],
) -> tuple[Delay, ...]:
    """Forecast how soon evidence finds drifts that are spread thinly over all symbols."""
    drift = Drift(reference)
    delays = []
    for divergence in divergences:
        if divergence <= drift.largest(theta):
            grown = growth(drift.at(divergence, theta))
            checks = detector.delay(grown.mean, grown.deviation)
            delays.append(Delay(divergence, checks if math.isfinite(checks) else None))
    return tuple(delays)


def expected_growth(
    first: NoisyCounts,
    deciding: Deciding,
    noise: NoiseTable,
    law: Law,
    *,
    design_effect: float = 1.0,
) -> Growth:
    """Forecast what both halves of a check add under a law over symbols; deterministic."""
    plan, records = first.plan, max(round(first.records), 1)
    p = np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)
    effect = min(design_effect, records / 2)
    generator, bits = np.random.default_rng(0), SeededBits(0)
    found = []
    for counts in draw_cohorts(p / p.sum(), records, effect, _WITNESSES, generator):
        witness = Witness.from_counts(published(counts, plan, first.event, bits), deciding)
        found.append(_growth(witness, noise, p, design_effect))
    mean, variance = np.array(found).T
    return Growth(float(mean.mean()), math.sqrt(float(variance.mean() + mean.var())))


def _growth(witness: Witness, noise: NoiseTable, p: Law, effect: float) -> tuple[float, float]:
    """Mean and variance of ln e, to second order in what is staked."""
    deciding, scores = witness.deciding, witness.scores
    s = scores.tables[0].astype(np.float64)
    each = float(p @ s)
    total = deciding.records * each
    spread = deciding.records * effect * float(p @ (s - each) ** 2)
    bet = Bet.on(
        scores,
        deciding.guarantee,
        noise,
        clients=deciding.clients,
        deviation=witness.deviation / witness.step,
    )
    units = scores.units(deciding.guarantee)
    by_total = bet.total * units[NUMBERS.index("total")]
    by_squares = bet.squares * units[NUMBERS.index("squares")]
    won = bet.total * total - bet.squares * (spread + total**2 / deciding.clients)
    variance = bet.total**2 * spread + (by_total**2 + by_squares**2) * noise.variance
    return won - bet.cost, max(float(variance), np.finfo(float).tiny)
