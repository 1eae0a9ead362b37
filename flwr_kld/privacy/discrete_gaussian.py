"""Discrete Gaussian noise, ``P(Z = k) ∝ e**(-k**2 / 2 sigma**2)``, as an exact bounded table.

Canonne, Kamath, Steinke 2020. The cut tail (below 2**-120) counts into delta by construction:
the accountant sees the bounded table that is sampled.
Proof note: ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext

from flwr_kld.privacy.table import TOTAL, NoiseTable

_LONGEST_REACH = 1 << 20


def discrete_gaussian(sigma: float) -> NoiseTable:
    """Build the table for a given scale parameter.

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
        raise _too_large()  # at once, not after a million weights
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        curvature = 1 / Decimal(sigma) ** 2
        step, shrink = (-curvature / 2).exp(), (-curvature).exp()
        relative = [Decimal(1)]  # e**(-k**2 / 2 sigma**2), by two multiplications an entry
        while relative[-1] * TOTAL > 1:
            relative.append(relative[-1] * step)
            step *= shrink
            if len(relative) > _LONGEST_REACH:
                raise _too_large()
        unit = TOTAL / (2 * sum(relative, Decimal(0)) - 1)
        side = [int(unit * r) for r in relative[1:] if unit * r >= 1]
    centre = TOTAL - 2 * sum(side)
    return NoiseTable((*side[::-1], centre, *side))


def _too_large() -> ValueError:
    return ValueError("sigma is too large for a table: raise epsilon or delta")
