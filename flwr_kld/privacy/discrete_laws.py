"""Laws of discrete noise as exact tables of integers: Laplace and Gaussian.

Proof notes: ``docs/proofs/discrete-laplace.md``, ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext

from flwr_kld.privacy.table import RATIO_BITS, TOTAL, NoiseTable

_ROUNDING_SLACK = Decimal(2) ** -20
_SMALLEST_WEIGHT = 1 << 48


_LONGEST_REACH = 1 << 20


def discrete_laplace(scale: float) -> NoiseTable:
    """Build the table of ``P(Z = k) ∝ e**(-|k| / scale)``, with geometric tails.

    Ghosh, Roughgarden, Sundararajan 2009. It replaces the paper's Gaussian noise (PRIEST-KLD,
    Cor. 3.1, whose printed variance is not scale-invariant) wherever pure epsilon is wanted.

    The law's own rate is ``(1 - 2**-20) / scale``: that sliver of extra noise absorbs the rounding
    of the weights, so the implemented law is pure ``d / scale`` for an l1 change of d.

    Parameters
    ----------
    scale : float
        In counts; ``d / epsilon`` for an l1 sensitivity of d counts.

    Raises
    ------
    ValueError
        If the scale is too small to protect anything (below 1/40) or too large for a table.
    """
    if not scale >= 1 / 40:
        raise ValueError("noise scale below 1/40 of a count protects nobody: lower epsilon")
    # Where weights fall below the smallest; a table far beyond the longest is not begun.
    if scale * (math.log(TOTAL // _SMALLEST_WEIGHT) - math.log(2 * scale)) > 1.1 * _LONGEST_REACH:
        raise _too_large("noise scale", "epsilon")
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        rate = (1 - _ROUNDING_SLACK) / Decimal(scale)
        ratio = (-rate).exp()
        weight = TOTAL * (1 - ratio) / (1 + ratio)
        side = []
        while int(weight) >= _SMALLEST_WEIGHT:
            side.append(int(weight))
            weight *= ratio
            if len(side) > _LONGEST_REACH:
                raise _too_large("noise scale", "epsilon")
        if not side:
            raise _too_large("noise scale", "epsilon")
        tail_ratio = int(ratio * (1 << RATIO_BITS))
    tail = TOTAL - side[0] - 2 * sum(side[1:])
    centre = side[0] + tail % 2  # the tail is split between two sides: keep it even
    return NoiseTable((*side[:0:-1], centre, *side[1:]), tail - tail % 2, tail_ratio)


def discrete_gaussian(sigma: float) -> NoiseTable:
    """Build the bounded table of ``P(Z = k) ∝ e**(-k**2 / 2 sigma**2)``.

    Canonne, Kamath, Steinke 2020. The cut tail (below 2**-120) counts into delta by construction:
    the accountant sees the bounded table that is sampled.

    Parameters
    ----------
    sigma : float
        In counts; the variance is within 1 % of ``sigma**2`` for sigma >= 0.7.

    Raises
    ------
    ValueError
        If sigma is too small to protect anything (below 1/12) or too large for a table.
    """
    if not sigma >= 1 / 12:  # from 1/14 down the table would be the constant 0
        raise ValueError("noise below 1/12 of a count protects nobody: lower epsilon")
    if sigma * math.sqrt(2 * math.log(TOTAL)) > 1.1 * _LONGEST_REACH:
        raise _too_large("sigma", "epsilon or delta")  # at once, not after a million weights
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        curvature = 1 / Decimal(sigma) ** 2
        step, shrink = (-curvature / 2).exp(), (-curvature).exp()
        relative = [Decimal(1)]  # e**(-k**2 / 2 sigma**2), by two multiplications an entry
        while relative[-1] * TOTAL > 1:
            relative.append(relative[-1] * step)
            step *= shrink
            if len(relative) > _LONGEST_REACH:
                raise _too_large("sigma", "epsilon or delta")
        unit = TOTAL / (2 * sum(relative, Decimal(0)) - 1)
        side = [int(unit * r) for r in relative[1:] if unit * r >= 1]
    centre = TOTAL - 2 * sum(side)
    return NoiseTable((*side[::-1], centre, *side))


def _too_large(what: str, cure: str) -> ValueError:
    return ValueError(f"{what} is too large for a table: raise {cure}")
