"""A law of ``r / E[r]`` of any smooth shape about a base, fitted by penalised maximum likelihood.

On a grid of u = ln r less its trend, ``ln law(u) = ln base(u) + f(u)``, f a Gaussian process a
priori (g-modelling, Efron 2016, doi:10.1093/biomet/asv068; here about a base that may change with
the mass of Π). Few directions matter, so f has `RANK` coefficients, whose information gives the
law's covariance, and Laplace's formula its evidence.

Numbers that were tuned, and the root mean square errors of the population's and of the cohort's
number if they are halved, and doubled: .118 and .094 as they are, in the 24 questions of
`drift_shapes`, of which one or none is beyond two deviations in all of these.

==========  ==========  ============================================================================
number      unit        meaning, and what a half or twice as much does
==========  ==========  ============================================================================
_HALF       of ln r     the points of the `GRID` above 0; half and twice as many: .118, .092 / .118,
                        .095
RANK        directions  of f that are fitted: .119, .094 / no change
_DEVIATION  of f        a priori: .115, .093 / .120, .095
_LENGTH     of u        over which f is alike, on the scale of asinh(u / `_WARP`): .119, .094 /
                        .116, .094
_WARP       of u        about 0 in which f may change fast: .117, .094 / .118, .094
==========  ==========  ============================================================================

`_STEPS`, `_TRIES` and `_ENOUGH`, a gain in nats, end the fit: halved or doubled, no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.estimators.score import Floats, exp

_HALF = np.concatenate(
    [np.arange(0, 0.3, 0.03), np.arange(0.3, 1.2, 0.06), np.arange(1.2, 8, 0.15)]
)
GRID = np.concatenate([-_HALF[:0:-1], _HALF])
"""u, ascending, finest about 0 where an undrifted cell lies. The first one stands for r = 0."""
SPACING = np.gradient(GRID)
CENTRE = len(_HALF) - 1  # Not tuned: where u is 0
RANK = 20
_DEVIATION, _LENGTH, _WARP = 3.0, 0.8, 0.3
_STEPS, _TRIES = 25, 8
_ENOUGH = 0.01


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """A law of u."""

    weights: Floats  # In each place of like mass of Π, shape [A, U], each row summing to 1
    trended: bool  # Whether the mean of r follows the trend
    # ln of the likelihood of all cells, coefficients integrated out, and of the law a priori
    evidence: float
    divergence: float  # Of the shape about its mean, in nats
    # Of the coefficients of f, shape [R, R]; None for a law without any
    covariance: Floats | None = None


@cache
def directions() -> Floats:
    """Leading directions of f, scaled to independent standard coefficients, shape [U, R]."""
    at = np.arcsinh(GRID / _WARP)
    covariance = _DEVIATION**2 * np.exp(-0.5 * ((at[:, None] - at) / _LENGTH) ** 2)
    sizes, axes = np.linalg.eigh(covariance)
    leading: Floats = axes[:, -RANK:] * np.sqrt(sizes[-RANK:])
    return leading


def bells(centre: Floats, spread: Floats, total: Floats) -> Floats:
    """Return normal laws of u on the grid, shape [H, U], that sum to totals, shape [H]."""
    by = 1 / spread
    heights: Floats = np.stack([by, -centre * by], axis=1) @ np.stack([GRID, np.ones_like(GRID)])
    heights *= heights
    heights *= -0.5
    heights = exp(heights)
    heights *= np.einsum("h,u->hu", total / (heights @ SPACING), SPACING)
    return heights


def freed(
    bases: Sequence[RatioLaw],
    base: Floats,
    rows: Floats,
    size: Floats,
    place_of: NDArray[np.int64],
) -> list[RatioLaw]:
    """Fit f about each of N bases, given their weights of equal shape, by Fisher scoring."""
    # Shapes: base [N, A, U], rows [N, G, U], size [N, G], place_of [N, G].
    along, one = directions(), np.arange(RANK)
    at, law, damping = np.zeros((len(bases), RANK)), base.copy(), np.full(len(bases), 1e-3)
    mixed, slopes = _likelihoods(rows, law, place_of)
    start = np.asarray((size * np.log(mixed)).sum(axis=1))
    value, told = start.copy(), _information(slopes, size)
    steps, tries = np.zeros((2, len(bases)), dtype=np.int64)
    going = np.arange(len(bases))
    while len(going):
        slope = np.einsum("ng,ngr->nr", size[going], slopes[going]) - at[going]
        damped = told[going]
        damped[:, one, one] *= 1 + damping[going, None]
        tried_at = at[going] + np.linalg.solve(damped, slope[..., None])[..., 0]
        f = tried_at @ along.T
        tried = base[going] * np.exp(f - f.max(axis=1, keepdims=True))[:, None]
        tried /= tried.sum(axis=-1, keepdims=True)
        mixed, tried_slopes = _likelihoods(rows, tried, place_of)
        gain = (size[going] * np.log(mixed)).sum(axis=1) - (tried_at**2).sum(axis=1) / 2
        gain -= value[going]
        better = gain >= 0
        some = going[better]
        at[some], law[some], slopes[some] = tried_at[better], tried[better], tried_slopes[better]
        value[some] += gain[better]
        told[some] = _information(slopes[some], size[some])
        damping[going] = np.where(better, damping[going] / 5, np.maximum(10 * damping[going], 1e-2))
        steps[going] += better
        tries[going] = np.where(better, 0, tries[going] + 1)
        settled = better & (gain < _ENOUGH)
        further = ~settled & (steps[going] < _STEPS) & (tries[going] < _TRIES)
        if not further.all():
            going, rows, place_of = going[further], rows[further], place_of[further]
    gained = value - start - np.linalg.slogdet(told)[1] / 2
    covariances = np.asarray(np.linalg.inv(told), dtype=np.float64)
    return [
        RatioLaw(own, base.trended, base.evidence + more, base.divergence, covariance)
        for own, base, more, covariance in zip(
            law, bases, gained.tolist(), covariances, strict=True
        )
    ]


def _likelihoods(rows: Floats, law: Floats, place_of: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Likelihood of each group under the law, [N, G], and its logarithm's gradient, [N, G, R]."""
    each = np.arange(len(law))[:, None]
    mixed = (rows * law[each, place_of]) @ _and_one()
    slopes = mixed[..., 1:] / mixed[..., :1] - (law @ directions())[each, place_of]
    return mixed[..., 0], slopes


@cache
def _and_one() -> Floats:
    """Ones, and the directions, shape [U, 1 + R]."""
    return np.column_stack([np.ones(len(GRID)), directions()])


def _information(slopes: Floats, size: Floats) -> Floats:
    """Information of the log posterior, shape [N, R, R]."""
    information: Floats = (slopes * size[..., None]).swapaxes(1, 2) @ slopes
    information += np.eye(RANK)
    return information
