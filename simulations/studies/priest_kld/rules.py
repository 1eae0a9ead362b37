"""One noised number from exact counts: the paper's rule, and a smoothed one, the scalar rule.

Both are ``F(h) = Σ w [λ (r - 1) - ln r]`` over T draws of Π, with w the multiplicities over T. The
paper clips, ``r = max(h / N, τ) / Π``; the scalar rule smooths, ``r = (h + a) / (N + A) / Π``.
F is linear in λ, so all λ are one outer product. Noise hides F's exact sensitivity, which hangs on
λ and the queries: pure noise has the law of the product's tables, on a grid. Proof note:
``docs/proofs/papers.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.trust.calibration import analytic_sigma

Floats = NDArray[np.float64]
TAU = 1e-6
"""The paper's small constant: it clips probabilities there."""
AMOUNT = 0.01
"""Smoothing of the scalar rule, in units of N Π."""
_GRID_STEPS = 32
_ROUNDING_SLACK = 2.0**-20
"""By which the implemented noise tables lower their rate."""


@dataclass(frozen=True, eq=False)
class Rule:
    """F of one cohort and one draw of queries, for every λ."""

    linear: float  # ``Σ w (r - 1)`` and ``Σ w ln r``: F = λ linear - logarithm
    logarithm: float
    weight: Floats  # w of the queried symbols, shape [S]
    slope: Floats  # What one more record adds to r, shape [S]
    first: Floats  # What the first record of a symbol adds to ln r, and the N-th, shape [S]
    last: Floats
    clipped: float = 0.0  # Part of `slope` that the first record does not add, as r was clipped

    def at(self, lambdas: Floats) -> Floats:
        """F without noise, shape [L]."""
        return lambdas * self.linear - self.logarithm

    def sensitivity(self, lambdas: Floats) -> Floats:
        """Largest change of F if one record changes its symbol, in nats, shape [L].

        ln is concave, so a symbol's first record moves F furthest down and its N-th least; a
        symbol that is not queried moves nothing, and there always is one.
        """
        by_slope = lambdas[:, None] * self.slope
        down = self.weight * (self.first - by_slope * (1 - self.clipped))
        up = self.weight * (self.last - by_slope)
        nothing = np.zeros((len(lambdas), 1))
        return _widest(np.hstack([down, nothing]), np.hstack([up, nothing]))

    @property
    def linear_sensitivity(self) -> float:
        """Largest change of ``Σ w (r - 1)``."""
        return float(np.max(self.weight * self.slope))


def paper_rule(counts: Floats, records: int, pi: Floats, weight: Floats) -> Rule:
    """PRIEST-KLD's rule with probabilities clipped at τ, as Algorithm 3 has it."""
    # Shapes: counts [S], pi [S], weight [S].
    if not 2 <= records <= 0.5 / TAU:
        raise ValueError(f"a cohort needs 2 to {0.5 / TAU:,.0f} records of a digit")
    linear, logarithm = clipped(counts, records, pi, weight, TAU)
    every = np.ones(len(pi))
    return Rule(
        float(linear), float(logarithm), weight,
        slope=1 / (records * pi),
        first=-math.log(records * TAU) * every,
        last=math.log(records / (records - 1)) * every,
        clipped=records * TAU,
    )  # fmt: skip


def clipped(
    counts: Floats, records: Floats | int, pi: Floats, weight: Floats, tau: float
) -> tuple[Floats, Floats]:
    """``Σ w (r - 1)`` and ``Σ w ln r`` with probabilities clipped at τ; counts are [..., S]."""
    ratio = np.maximum(counts / records, tau) / pi
    return (ratio - 1) @ weight, np.log(ratio) @ weight


def scalar_rule(counts: Floats, records: int, pi: Floats, weight: Floats) -> Rule:
    """Smooth instead of clipping; D_θ at λ = 0. Parameters are those of `paper_rule`."""
    a, norm = AMOUNT * records * pi, (1 + AMOUNT) * records
    ratio = (counts + a) / (norm * pi)
    return Rule(
        float(weight @ (ratio - 1)), float(weight @ np.log(ratio)), weight,
        slope=1 / (norm * pi), first=np.log1p(1 / a), last=np.log1p(1 / (records - 1 + a)),
    )  # fmt: skip


def noised(
    value: Floats, sensitivity: Floats, epsilon: float, delta: float, rng: np.random.Generator
) -> Floats:
    """Release numbers, each for (ε, δ) by itself, on a grid; any shape.

    Without δ, noise is discrete Laplace: a difference of two geometric variables, which NumPy draws
    for all scales at once; a table for each would take most of the study's time. With δ, it is the
    analytic Gaussian mechanism's, on real numbers.
    """
    if delta:
        sigma = analytic_sigma(epsilon, delta) * sensitivity
        return value + sigma * rng.standard_normal(value.shape)
    step, moves = grid(sensitivity)
    stop = -np.expm1(-(1 - _ROUNDING_SLACK) * epsilon / moves)
    noise = rng.geometric(stop) - rng.geometric(stop)
    released: Floats = (np.rint(value / step) + noise) * step
    return released


def grid(sensitivity: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return steps in nats, and how many of them a number moves at most, rounding included."""
    step: Floats = 2.0 ** np.floor(np.log2(sensitivity / _GRID_STEPS))
    return step, np.ceil(sensitivity / step).astype(np.int64) + 1


def _widest(down: Floats, up: Floats) -> Floats:
    """``max_{u != v} down_u - up_v`` in each row, shape [L]."""
    rows = np.arange(len(down))
    top, bottom = down.argmax(axis=1), up.argmin(axis=1)
    best = down[rows, top] - up[rows, bottom]
    second_top = np.partition(down, -2, axis=1)[:, -2] - up[rows, bottom]
    second_bottom = down[rows, top] - np.partition(up, 1, axis=1)[:, 1]
    widest: Floats = np.where(top != bottom, best, np.maximum(second_top, second_bottom))
    return widest
