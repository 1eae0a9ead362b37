"""Laws of ``r / E[r]`` of any smooth shape, fitted by penalised maximum likelihood.

On a grid of u = ln r less its trend, ``ln law(u) = ln base(u) + f(u)``, f a Gaussian process a
priori (g-modelling, Efron 2016, doi:10.1093/biomet/asv068; here with several bases). Few directions
matter, so f has `RANK` coefficients, whose information gives the law's covariance, and Laplace's
formula the evidence by which candidate bases are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from flwr_kld.inference.estimators.score import Floats

_HALF = np.concatenate(
    [np.arange(0, 0.3, 0.03), np.arange(0.3, 1.2, 0.06), np.arange(1.2, 8, 0.15)]
)
GRID = np.concatenate([-_HALF[:0:-1], _HALF])
"""u, ascending, finest about 0 where an undrifted cell lies. The first one stands for r = 0."""
SPACING = np.gradient(GRID)
CENTRE = len(_HALF) - 1
RANK = 20
_DEVIATION, _LENGTH, _WARP = 3.0, 0.8, 0.3
"""Of f: its deviation, and its correlation length in ``asinh(u / warp)``."""
_SPREADS = (0.1, 0.3, 0.8, 2.0)
"""Deviations of u in the bases; besides them, that r is its mean everywhere."""
_OUTLIERS = 0.02
"""Share of the widest spread in every base, so that few cells may have moved far."""
_STEPS, _TRIES = 25, 8
_ENOUGH = 0.01
"""Gain in nats below which a fit has ended."""


@dataclass(frozen=True, eq=False)
class FreeLaw:
    """A fitted law.

    Parameters
    ----------
    weights : Floats
        Shape [U], summing to 1.
    covariance : Floats
        Of the coefficients, shape [R, R]; R = 0 for a law without any.
    evidence : float
        ln of the likelihood of all cells, the coefficients integrated out.
    """

    weights: Floats
    covariance: Floats
    evidence: float


def fitted_laws(rows: Floats, size: Floats) -> list[FreeLaw]:
    """Fit the law to each base, first that r is its mean in every cell.

    Parameters
    ----------
    rows : Floats
        Likelihood of each group under each u, shape [G, U], > 0.
    size : Floats
        Cells in each group, shape [G].
    """
    still = np.zeros(len(GRID))
    still[CENTRE] = 1.0
    first = FreeLaw(still, np.zeros((0, 0)), float(size @ np.log(rows[:, CENTRE])))
    return [first, *(_fit(rows, size, _base(spread)) for spread in _SPREADS)]


@cache
def directions() -> Floats:
    """Leading directions of f, scaled to independent standard coefficients, shape [U, R]."""
    at = np.arcsinh(GRID / _WARP)
    covariance = _DEVIATION**2 * np.exp(-0.5 * ((at[:, None] - at) / _LENGTH) ** 2)
    sizes, axes = np.linalg.eigh(covariance)
    leading: Floats = axes[:, -RANK:] * np.sqrt(sizes[-RANK:])
    return leading


def _bell(spread: float) -> Floats:
    bell = SPACING * np.exp(-0.5 * (GRID / spread) ** 2)
    normal: Floats = bell / bell.sum()
    return normal


def _base(spread: float) -> Floats:
    return (1 - _OUTLIERS) * _bell(spread) + _OUTLIERS * _bell(_SPREADS[-1])


def _fit(rows: Floats, size: Floats, base: Floats) -> FreeLaw:
    """Climb by Fisher scoring from the base."""
    along = directions()
    at, damping = np.zeros(RANK), 1e-3
    law = base
    mixed = rows @ law
    value = float(size @ np.log(mixed))
    for _ in range(_STEPS):
        slope, told = _scores(rows, size, law, mixed, at)
        for _ in range(_TRIES):
            step = np.linalg.solve(told + damping * np.diag(np.diag(told)), slope)
            tried = base * np.exp(along @ (at + step) - (along @ (at + step)).max())
            tried /= tried.sum()
            tried_mixed = rows @ tried
            tried_at = at + step
            gain = float(size @ np.log(tried_mixed) - tried_at @ tried_at / 2) - value
            if gain >= 0:
                break
            damping = max(10 * damping, 1e-2)
        if gain < 0:
            break
        at, law, mixed, value, damping = tried_at, tried, tried_mixed, value + gain, damping / 5
        if gain < _ENOUGH:
            break
    _, told = _scores(rows, size, law, mixed, at)
    evidence = value - float(np.linalg.slogdet(told)[1]) / 2
    covariance = np.asarray(np.linalg.inv(told), dtype=np.float64)
    return FreeLaw(law, covariance, evidence)


def _scores(
    rows: Floats, size: Floats, law: Floats, mixed: Floats, at: Floats
) -> tuple[Floats, Floats]:
    """Gradient [R] of the log posterior, and its information [R, R]."""
    along = directions()
    each = ((rows * law) @ along) / mixed[:, None] - law @ along
    return size @ each - at, (each * size[:, None]).T @ each + np.eye(RANK)
