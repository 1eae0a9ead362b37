"""Searches the least noise that keeps a guarantee: what it returns is a release that proved itself.

>>> release = least_noise(Guarantee(1.0, 1e-6))
>>> release.mechanism, round(release.table.variance, 2)
('discrete-laplace', 7.83)
>>> of_thirty_columns = least_noise(Guarantee(1.0, 1e-6), (1, -1) * 30)
>>> of_thirty_columns.mechanism, round(of_thirty_columns.table.variance)
('discrete-gaussian', 1071)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Literal, TypeVar, get_args

from flwr_kld.common.search import edge
from flwr_kld.kernel.arguments import choice, integer
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.law import TOTAL
from flwr_kld.kernel.promise import Allotment, Ball, Guarantee, Moves, l1_norm
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.trust.noise_laws import (
    discrete_gaussian,
    discrete_laplace,
    laplace_share,
    truncated_laplace,
)

Mechanism = Literal["discrete-laplace", "discrete-gaussian"]
_R = TypeVar("_R", Release, ShareRelease)
_ONE_RECORD = 1, -1
"""Move of a single column's counts by a record that changes its value."""
_FINE, _COARSE = 1.0001, 1.002
"""Ratio of neighbouring scales in a search; the second where a bound takes long."""
_MOST_STEPS = 2**12
"""From where a search starts: by the finer ratio, to half as much again."""


def least(release: Callable[[float], _R], start: float, ratio: float) -> _R | None:
    """Return the release of the least scale ``start * ratio**n``, n whole, that proves itself.

    Doubles its strides away from `start`, then bisects. Whatever it returns is safe: a `Release` or
    `ShareRelease` cannot be constructed unless its own table keeps its guarantee, and nothing is
    concluded from other scales. That more noise protects more, which integers keep to about a
    count's grain, is what makes it the least. None if no scale within reach proves itself.
    """

    @cache
    def tried(step: int) -> _R | None:
        return _proved(lambda: release(start * ratio**step))

    low, high = -1, 0
    while tried(high) is None:
        low, high = high, 2 * high + 1
        if high > _MOST_STEPS:
            return None
    while high <= 0 and low > -_MOST_STEPS and tried(low):
        low, high = 2 * low - 1, low
    between = range(low + 1, high)
    return tried(low + 1 + bisect_left(between, True, key=lambda step: tried(step) is not None))


def _proved(release: Callable[[], _R]) -> _R | None:
    try:
        return release()
    except ValueError:  # it hides too little, or no table has this scale
        return None


@lru_cache(maxsize=64)
def least_noise(guarantee: Guarantee, moves: Moves = _ONE_RECORD) -> Release:
    """Pure discrete Laplace or discrete Gaussian noise, whichever has the smaller variance."""
    # The ideal law is compared first: Gaussian tables of far more noise take long.
    epsilon, delta = guarantee.epsilon, guarantee.delta
    pure = math.sqrt(2) * l1_norm(moves) / epsilon
    if delta and analytic_sigma(epsilon, delta, _length(moves)) < pure:
        gaussian = _gaussian(guarantee, moves)
        if gaussian is not None and gaussian.table.variance < pure**2:
            return gaussian
    return calibrated_laplace(guarantee, moves)


def calibrated_laplace(guarantee: Guarantee, moves: Moves = _ONE_RECORD) -> Release:
    """Discrete Laplace noise that hides `moves` as promised, and needs no delta."""
    table = discrete_laplace(l1_norm(moves) / guarantee.epsilon)
    pure = replace(guarantee, delta=0.0)
    if _proved(lambda: Release("discrete-laplace", table, moves, pure)) is None:
        raise _unserved(guarantee)
    return Release("discrete-laplace", table, moves, guarantee)


def calibrated_gaussian(guarantee: Guarantee, moves: Moves = _ONE_RECORD) -> Release:
    """Discrete Gaussian noise that hides `moves` as `guarantee` promises."""
    # The exact divergence takes the place of the paper's variance ``2 ln(1.25/δ) Δ / ε``
    # (PRIEST-KLD, Cor. 3.1), which is not scale-invariant and claims too little epsilon.
    if guarantee.delta == 0:
        raise ValueError("Gaussian noise needs delta > 0: use discrete Laplace for pure epsilon")
    found = _gaussian(guarantee, moves)
    if found is None:
        raise _unserved(guarantee)
    return found


@lru_cache(maxsize=64)
def _gaussian(guarantee: Guarantee, moves: Moves) -> Release | None:
    """Return the least Gaussian noise; None if no table serves, as for a tiny delta."""
    if guarantee.delta * TOTAL < 1:  # a bounded table's last weight alone is more
        return None
    sigma, ratio = analytic_sigma(guarantee.epsilon, guarantee.delta, _length(moves)), _FINE
    if isinstance(moves, Ball):  # its certificate is the ideal law's, of 4 less variance
        sigma, ratio = _FINE * math.hypot(sigma, 2), _COARSE
    return least(
        lambda sigma: Release("discrete-gaussian", discrete_gaussian(sigma), moves, guarantee),
        sigma,
        ratio,
    )


def continual_release(guarantee: Guarantee, stream: Continual, allotment: Allotment) -> Release:
    """Return the one release of all nights of a session: least Gaussian noise for all lifetimes."""
    if not guarantee.delta:
        raise ValueError("a standing session has Gaussian noise, which needs delta > 0")
    release = calibrated_gaussian(guarantee, stream.moved(allotment))
    return replace(release, mechanism=f"continual {release.mechanism}")


@lru_cache(maxsize=64)
def selection_release(guarantee: Guarantee) -> Release:
    """Return the release of unlisted labels: the least reach of truncated Laplace noise.

    Raises `ValueError` if no table serves the guarantee, which must be one of records.
    """
    scale, each = 2 / guarantee.epsilon, guarantee.delta / 2
    q = math.exp(-1 / scale)
    if not each or not q:
        raise _unserved(guarantee)
    # Where the outermost weight is `each` of all, on real numbers
    least = math.ceil(scale * math.log((1 - q + 2 * q * each) / (each * (1 + q))))
    for reach in range(max(least, 1), least + 3):  # rounding may ask for one more
        table = truncated_laplace(scale, reach)
        found = _proved(lambda: Release("truncated-laplace", table, _ONE_RECORD, guarantee))  # noqa: B023
        if found is not None:
            return found
    raise _unserved(guarantee)


@lru_cache(maxsize=32)
def calibrate_shares(
    guarantee: Guarantee,
    moves: Moves = _ONE_RECORD,
    *,
    n_min: int,
    mechanism: Mechanism | None = None,
) -> ShareRelease:
    """Find the least shares of which `n_min` deliver `guarantee` for these moves.

    They add up to noise of the law that has the smaller variance, unless one is named.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0:
        raise ValueError("noise shares have bounded tables: give delta > 0, it may be 1e-12")
    n_min = integer("n_min", n_min, least=1, unit="clients")
    scale, sigma = l1_norm(moves) / epsilon, analytic_sigma(epsilon, delta, _length(moves))
    if mechanism is None:
        mechanism = "discrete-laplace" if math.sqrt(2) * scale <= sigma else "discrete-gaussian"
    law = choice("mechanism", mechanism, get_args(Mechanism))
    if law == "discrete-laplace":
        return ShareRelease(law, laplace_share(scale, n_min), n_min, 1, moves, guarantee)

    def shares(total: float) -> ShareRelease:
        # A share's variance is at least one grid step's; odd, so that sums round to counts evenly.
        # Discrete Gaussians (Kairouz, Liu, Steinke 2021) add up to about one only if each sigma is
        # about 1 or more; below, the sum protects less than its variance says.
        grid = math.ceil(math.sqrt(n_min) / total) | 1
        share = discrete_gaussian(grid * total / math.sqrt(n_min))
        return ShareRelease(law, share, n_min, grid, moves, guarantee)

    found = least(shares, sigma, _COARSE)
    if found is None:
        raise ValueError(f"no noise shares serve epsilon={epsilon}, delta={delta}: raise either")
    return found


def analytic_sigma(epsilon: float, delta: float, norm: float = 1.0) -> float:
    """Gaussian noise on real numbers for moves of this 2-norm (Balle & Wang 2018, Theorem 8)."""

    def too_little(mu: float) -> bool:
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        more, less = math.erfc(near / math.sqrt(2)), math.erfc(far / math.sqrt(2))
        return (more - math.exp(min(epsilon, 700.0)) * less) / 2 > delta

    most = edge(too_little, 2 * math.sqrt(epsilon) + 40, 0.0, within=1e-6)
    return norm / most


def _length(moves: Moves) -> float:
    """Return the 2-norm of the farthest move."""
    return math.sqrt(moves.squares) if isinstance(moves, Ball) else math.hypot(*moves)


def _unserved(guarantee: Guarantee) -> ValueError:
    return ValueError(
        f"no noise table serves epsilon={guarantee.epsilon}, delta={guarantee.delta}: raise "
        "epsilon, up to 20, for a standing session of several columns to .5 or more; delta is 0 or "
        "at least 1e-11"
    )
