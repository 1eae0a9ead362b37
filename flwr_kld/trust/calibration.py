"""Searches the least noise for a given (epsilon, delta); `Release` proves the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from flwr_kld.common.search import edge
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.delta import ORDERS, hockey_stick, moves_delta
from flwr_kld.kernel.law import TOTAL, NoiseTable
from flwr_kld.kernel.promise import Allotment, Ball, Guarantee, check_shifts
from flwr_kld.kernel.release import Release
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace, truncated_laplace

Law = Callable[[float], NoiseTable]
"""Noise tables by their scale."""
_PRECISION = 1e-4
"""Relative precision of a calibrated scale; the side that satisfies the guarantee is kept."""
_LATTICE = 8.0
"""Scales, in counts, below which the integers' grain shows."""
_PERCENTS = 600
"""Steps of 1 % that reach from `_LATTICE` below the smallest scale of any table."""


def calibrated_laplace(guarantee: Guarantee, *, shifts: tuple[int, ...] | None = None) -> Release:
    """Discrete Laplace noise that hides `shifts` as promised, and needs no delta."""
    shifts = check_shifts(shifts or (1, -1))
    table = discrete_laplace(sum(map(abs, shifts)) / guarantee.epsilon)
    if hockey_stick(table, shifts, guarantee.epsilon) > 0:
        raise _unserved(guarantee.epsilon, 0.0)
    return Release("discrete-laplace", table, shifts, guarantee)


def calibrated_gaussian(guarantee: Guarantee, *, shifts: tuple[int, ...] | None = None) -> Release:
    """Discrete Gaussian noise that hides `shifts` as `guarantee` promises."""
    # The exact divergence takes the place of the paper's variance ``2 ln(1.25/δ) Δ / ε``
    # (PRIEST-KLD, Cor. 3.1), which is not scale-invariant and claims too little epsilon.
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0:
        raise ValueError("Gaussian noise needs delta > 0: use discrete Laplace for pure epsilon")
    if delta * TOTAL < 1:  # a bounded table's last weight alone is more
        raise _unserved(epsilon, delta)
    shifts = check_shifts(shifts or (1, -1))
    table = _gaussian_table(epsilon, delta, shifts)
    return Release("discrete-gaussian", table, shifts, guarantee)


@lru_cache(maxsize=64)
def least_noise(guarantee: Guarantee, *, shifts: tuple[int, ...] | None = None) -> Release:
    """Pure discrete Laplace or discrete Gaussian noise, whichever has the smaller variance."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    moves = check_shifts(shifts or (1, -1))
    if delta > 0:
        laplace_sigma = math.sqrt(2) * sum(map(abs, moves)) / epsilon
        sigma = min(laplace_sigma, _ample_sigma(epsilon, delta, moves))
        if _serves(discrete_gaussian, sigma, moves, epsilon, delta):
            return calibrated_gaussian(guarantee, shifts=moves)
    return calibrated_laplace(guarantee, shifts=moves)


@lru_cache(maxsize=64)
def ball_event(guarantee: Guarantee, ball: Ball) -> Release:
    """Least noise that hides every move of a ball, such as that of a whole client of a table."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta > 0:
        # The ideal laws' certificates, and a hair; the first takes many steps, and 4 of variance
        fine = 1.0001 * math.hypot(analytic_sigma(epsilon, delta, (math.sqrt(ball.squares),)), 2)
        for sigma in (fine, *zcdp_sigma(ball, epsilon, delta) * 1.002 ** np.arange(1, 6)):
            if sigma >= math.sqrt(2) * ball.l1 / epsilon:
                break
            table = discrete_gaussian(sigma)
            if moves_delta(table, ball, epsilon) <= delta:
                return Release("discrete-gaussian", table, ball, guarantee)
    return replace(calibrated_laplace(guarantee, shifts=(ball.l1,)), moves=ball)


@lru_cache(maxsize=64)
def continual_release(guarantee: Guarantee, stream: Continual, allotment: Allotment) -> Release:
    """Return the one release of all nights of a session: least Gaussian noise for all lifetimes."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if not delta:
        raise ValueError("a standing session has Gaussian noise, which needs delta > 0")
    ball = stream.moved(allotment)
    sigma = analytic_sigma(epsilon, delta, (math.sqrt(ball.squares),))
    for hair in (1e-4, 1e-3):  # other bounds then agree
        table = discrete_gaussian((1 + hair) * sigma)
        if moves_delta(table, ball, epsilon) <= delta:
            return Release("continual discrete-gaussian", table, ball, guarantee)
    raise _unserved(epsilon, delta)


def central_release(guarantee: Guarantee, allotment: Allotment) -> Release:
    """Return the least noise that one party adds to the counts of a whole cohort."""
    if most_records := guarantee.most_records:
        return ball_event(guarantee, allotment.client_moves(most_records))
    return least_noise(guarantee, shifts=allotment.record_moves())


@lru_cache(maxsize=64)
def selection_release(guarantee: Guarantee) -> Release:
    """Return the release of unlisted labels: the least reach of truncated Laplace noise.

    Raises `ValueError` if no table serves the guarantee, which must be one of records.
    """
    epsilon, delta, shifts = guarantee.epsilon, guarantee.delta, (1, -1)
    scale, each = 2 / epsilon, delta / 2
    q = math.exp(-1 / scale)
    if not each or not q:
        raise _unserved(epsilon, delta)
    # Where the outermost weight is `each` of all, on real numbers
    least = math.ceil(scale * math.log((1 - q + 2 * q * each) / (each * (1 + q))))
    for reach in range(max(least, 1), least + 3):  # rounding may ask for one more
        table = truncated_laplace(scale, reach)
        if hockey_stick(table, shifts, epsilon) <= delta:
            return Release("truncated-laplace", table, shifts, guarantee)
    raise _unserved(epsilon, delta)


@lru_cache(maxsize=64)
def _gaussian_table(epsilon: float, delta: float, shifts: tuple[int, ...]) -> NoiseTable:
    scale, low = _ample_sigma(epsilon, delta, shifts), 0.0
    if len(shifts) > 2:  # large tables, and an even grid: search near the law of real numbers
        sigma = analytic_sigma(epsilon, delta, shifts)
        scale, low = 1.0003 * sigma, 0.999 * sigma
    return _least_scale(discrete_gaussian, scale, shifts, epsilon, delta, low=low)


def analytic_sigma(epsilon: float, delta: float, shifts: tuple[float, ...]) -> float:
    """Gaussian noise on real numbers (Balle & Wang 2018, Theorem 8)."""

    def too_little(mu: float) -> bool:
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        more, less = math.erfc(near / math.sqrt(2)), math.erfc(far / math.sqrt(2))
        return (more - math.exp(min(epsilon, 700.0)) * less) / 2 > delta

    most = edge(too_little, 2 * math.sqrt(epsilon) + 40, 0.0, within=1e-6)
    return math.hypot(*shifts) / most


def _ample_sigma(epsilon: float, delta: float, shifts: tuple[int, ...]) -> float:
    """More Gaussian noise than is needed: where a search starts."""
    l2 = math.sqrt(sum(s * s for s in shifts))
    return l2 * (math.sqrt(2 * math.log(1.25 / delta)) + math.sqrt(epsilon)) / epsilon


def _least_scale(
    law: Law,
    scale: float,
    shifts: tuple[int, ...],
    epsilon: float,
    delta: float,
    *,
    low: float = 0.0,
) -> NoiseTable:
    """Smallest scale of `law` within the guarantee, by bisection between `low` and `scale`."""
    # On integers the divergence is not monotone in the scale once the noise is of the order of one
    # count: there, smaller scales are tried too, percent by percent.

    def enough(scale: float) -> bool:
        return _serves(law, scale, shifts, epsilon, delta)

    start = scale
    if not math.isfinite(start):
        raise _unserved(epsilon, delta)
    while not enough(scale):
        scale *= 2
        if scale > 1000 * start:
            raise _unserved(epsilon, delta)
    high = scale
    if scale < _LATTICE:
        feasible = [s for s in scale * 0.99 ** np.arange(_PERCENTS) if enough(s)]
        low, high = 0.99 * feasible[-1], feasible[-1]
    return _verified(law(edge(enough, high, low, within=_PRECISION)), shifts, epsilon, delta)


def _serves(law: Law, scale: float, shifts: tuple[int, ...], epsilon: float, delta: float) -> bool:
    try:
        return hockey_stick(law(scale), shifts, epsilon) <= delta
    except ValueError:  # outside the scales that a table is built for
        return False


def _verified(
    table: NoiseTable, shifts: tuple[int, ...], epsilon: float, delta: float
) -> NoiseTable:
    if hockey_stick(table, shifts, epsilon) > delta:
        raise _unserved(epsilon, delta)
    return table


def _unserved(epsilon: float, delta: float) -> ValueError:
    return ValueError(
        f"no noise table serves epsilon={epsilon}, delta={delta}: choose an epsilon between 0.0001 "
        "and 20, and a delta of 0 or at least 1e-11"
    )


def zcdp_sigma(ball: Ball, epsilon: float, delta: float) -> float:
    """Gaussian noise, in counts, that would hide `ball`: where a search starts."""
    rest = ORDERS - 1
    # epsilon = order × rho + spent(order), by the same conversion as above
    spent = (rest * np.log1p(-1 / ORDERS) - np.log(ORDERS) - math.log(delta)) / rest
    rho = float(np.max((epsilon - spent) / ORDERS))
    if rho <= 0:
        raise ValueError("epsilon or delta is too small for client-level noise: raise either")
    return math.sqrt(ball.squares / (2 * rho))
