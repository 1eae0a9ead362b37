"""Certified privacy of a noise table against every integer move in a ball.

The worst move is not guessed: each bound below holds for all of them at once.
Proof note: ``docs/proofs/client-level.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.clip import Ball
from flwr_kld.privacy.hockey_stick import exp_below
from flwr_kld.privacy.table import TOTAL, NoiseTable

ORDERS = 1 + 1.15 ** np.arange(-8, 56)
"""Rényi orders, 1.3 to 2,200; a finer choice would save less than 1 % of epsilon."""
_FLOAT_SLACK = 2.0**-40
"""Times the order, covers float64 rounding of one log-moment (below 2e-13 times the order)."""


def pure_delta(law: NoiseTable, ball: Ball, grid: int, epsilon: float) -> Fraction:
    """Delta at which steps of at most ``e**(epsilon / l1)`` hide every move of `ball`.

    Within a core ``|k| <= K`` of the law, neighbouring weights differ by at most that factor;
    what lies outside, or within one move of the core's edge, is delta. Close to 0 for (sums of)
    discrete Laplace, useless for lighter tails.

    Parameters
    ----------
    law : NoiseTable
        The noise on every coordinate, in grid steps.
    ball : Ball
        Moves, in counts.
    grid : int
        Grid steps a count.
    epsilon : float
        In nats, > 0.
    """
    factor = exp_below(math.nextafter(epsilon / (ball.l1 * grid), 0))
    up, down = factor.numerator, factor.denominator
    core, weights = 0, law.weights[law.reach :]
    while core < law.reach:
        large, small = sorted((weights[core], weights[core + 1]), reverse=True)
        if large * down > small * up:
            break
        core += 1
    inner = core - ball.largest * grid
    inside = weights[0] + 2 * sum(weights[1 : inner + 1]) if inner >= 0 else 0
    return min(Fraction(1), ball.coordinates * (1 - Fraction(inside, TOTAL)))


def renyi_delta(law: NoiseTable, ball: Ball, grid: int, epsilon: float) -> Fraction:
    """Delta of every move of `ball`, from the law's own Rényi moments.

    A move of ``a`` counts on one coordinate has log-moment ``m(a) <= price |a|**norm``, price >= 0.
    Moments of independent coordinates add up: all moves of the ball pay at most price × power.
    Then

        delta <= e**(price power - (order - 1) epsilon) (1 - 1/order)**(order - 1) / order

    (Canonne, Kamath, Steinke 2020, Prop. 12) plus the mass where the table ends.
    Parameters are those of `pure_delta`.
    """
    prices, lost = _prices(law, ball, grid)
    rest = ORDERS - 1
    exponents = prices * ball.power - rest * epsilon + rest * np.log1p(-1 / ORDERS) - np.log(ORDERS)
    best = math.exp(min(0.0, float(exponents.min()) + 1e-9))
    return min(Fraction(1), Fraction(best) + ball.coordinates * lost)


@lru_cache(maxsize=32)
def _prices(law: NoiseTable, ball: Ball, grid: int) -> tuple[NDArray[np.float64], Fraction]:
    """Price of a unit of ``|a|**norm`` at each order, and the mass lost at a table's end."""
    log_law = np.log(law.probabilities)
    prices = np.zeros(len(ORDERS))  # a negative price would be wrong: few moves pay `power` units
    if ball.largest * grid >= len(log_law):
        return prices, Fraction(1)  # one client moves the sum beyond all noise
    for a in range(1, ball.largest + 1):
        p, q = log_law[a * grid :], log_law[: -a * grid]
        moments = np.array([_log_moment(p, q, order) for order in ORDERS])
        prices = np.maximum(prices, (moments + _FLOAT_SLACK * ORDERS) / a**ball.norm)
    return prices, Fraction(law.tail + sum(law.weights[: ball.largest * grid]), TOTAL)


def _log_moment(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    """``ln Σ P**order Q**(1 - order)`` from the logarithms of P and Q."""
    terms = order * (p - q) + q
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum()))
