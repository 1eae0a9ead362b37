"""A bet on clients' sums: evidence of a single check whose mean is at most 1, for every law.

A client's sum S, of mean at most 0 if D_θ is at most the threshold, cannot fall below a public
``-worst``. For a stake λ with ``λ · worst = a < 1``,

    exp(λ S - c(a) λ² S² / 2) <= 1 + λ S,        c(a) = 2 (-ln(1 - a) - a) / a²

(Fan, Grama, Liu 2015), whose mean is at most 1. So T and Q, the sums of S and S² over clients, make
evidence ``exp(λ T - c λ² Q / 2)`` for any stake that was fixed before they answered.
Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.deciding import curvature
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import NUMBERS, Scores
from flwr_kld.kernel.law import RATIO_BITS, TOTAL, NoiseTable
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.query.noisy import ClientSums

_LARGEST_LOSS = 0.5
"""Part of the wealth that the worst client can lose: more makes c and the cost of noise grow."""
_PARTS = np.geomspace(1.0, 0.02, 24)
_DRIFT = 1.5
"""Standard errors of a check's sum at which bets on a drift grow fastest."""
_COST = 1.0
"""Nats that the noise of one check may cost."""
_SLACK = 2.0**-30


@dataclass(frozen=True)
class Bet:
    """What is staked on a check's sums, and what noise costs; public before anybody answers."""

    total: float  # λ, for each step of the sum of scores, and c λ² / 2, for each squared step
    squares: float
    cost: float  # Nats that the noise in both sums and the clients' rounding cost at most

    @classmethod
    def on(
        cls,
        scores: Scores,
        guarantee: Guarantee,
        noise: NoiseTable,
        *,
        clients: int,
        deviation: float,
    ) -> Bet:
        """Choose the stake that grows fastest on a small drift, given the noise."""
        units = scores.units(guarantee)
        steps = units[[NUMBERS.index("total"), NUMBERS.index("squares")]]
        parts = _LARGEST_LOSS * _PARTS
        totals = parts / max(scores.worst, 1)
        squares = curvature(parts) * totals**2 / 2
        slopes = np.stack([totals, squares], axis=1) * steps
        drift = _DRIFT * math.hypot(deviation, math.sqrt(noise.variance) * steps[0])
        growth = totals * drift - squares * deviation**2 - (slopes**2).sum(1) * noise.variance / 2
        for i in range(int(np.argmax(growth)), len(parts)):
            cost = float(log_moment(noise, slopes[i]).sum())
            if cost <= _COST:
                rounding = clients * float((slopes[i] ** 2).sum()) / 8
                return cls(float(totals[i]), float(squares[i]), cost + rounding + _SLACK)
        return cls(0.0, 0.0, 0.0)  # noise that strong leaves nothing to be won


def log_evidence(witness: Witness, sums: ClientSums) -> float:
    """Return ln e of a check, where ``E e <= 1`` if D_θ is at most the threshold."""
    witness.hold(sums)
    bet = Bet.on(
        witness.scores,
        sums.event.guarantee,
        sums.noise,
        clients=sums.clients,
        deviation=witness.deviation / witness.step,
    )
    won = bet.total * sums.value("total") - bet.squares * sums.value("squares")
    return won - bet.cost


def log_moment(noise: NoiseTable, slopes: Floats) -> Floats:
    """``ln E exp(slope · Z)`` for slopes of any shape, inf where it diverges; the tail included."""
    ratio, slope = noise.tail_ratio / 2.0**RATIO_BITS, np.abs(slopes)
    exists = (slope * noise.reach <= 500) & (ratio * np.exp(np.minimum(slope, 500)) < 1)
    slope = np.where(exists, slope, 0.0)
    side = slice(noise.reach + 1, None)
    # With its inverse, several times as fast as cosh.
    grown = np.exp(slope[..., None] * noise.support[side])
    moment = noise.probabilities[noise.reach] + (grown + 1 / grown) @ noise.probabilities[side]
    edge, first = noise.tail / TOTAL * (1 - ratio) / 2, slope * (noise.reach + 1)
    for sign in (1, -1):
        moment += edge * np.exp(sign * first) / (1 - ratio * np.exp(sign * slope))
    return np.where(exists, np.log(moment), math.inf)
