"""Discrete Laplace noise, ``P(Z = k) ∝ e**(-|k| / scale)``, as an exact table with geometric tails.

Ghosh, Roughgarden, Sundararajan 2009. It replaces the paper's Gaussian noise (PRIEST-KLD, Cor. 3.1,
whose printed variance is not scale-invariant) wherever pure eps is wanted.
Proof note: ``docs/proofs/discrete-laplace.md``.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext

from flwr_kld.privacy.table import RATIO_BITS, TOTAL, NoiseTable

_ROUNDING_SLACK = Decimal(2) ** -20
_SMALLEST_WEIGHT = 1 << 48
_LONGEST_REACH = 1 << 20


def discrete_laplace(scale: float) -> NoiseTable:
    """Build the table for a given scale.

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
        raise _too_large()
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        rate = (1 - _ROUNDING_SLACK) / Decimal(scale)
        ratio = (-rate).exp()
        weight = TOTAL * (1 - ratio) / (1 + ratio)
        side = []
        while int(weight) >= _SMALLEST_WEIGHT:
            side.append(int(weight))
            weight *= ratio
            if len(side) > _LONGEST_REACH:
                raise _too_large()
        if not side:
            raise _too_large()
        tail_ratio = int(ratio * (1 << RATIO_BITS))
    tail = TOTAL - side[0] - 2 * sum(side[1:])
    centre = side[0] + tail % 2  # the tail is split between two sides: keep it even
    return NoiseTable((*side[:0:-1], centre, *side[1:]), tail - tail % 2, tail_ratio)


def _too_large() -> ValueError:
    return ValueError("noise scale is too large for a table: raise epsilon")
