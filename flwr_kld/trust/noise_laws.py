"""Families of noise laws, as exact tables: discrete Laplace and Gaussian, and shares of noise.

Proof notes: ``docs/proofs/noise.md``, ``docs/proofs/noise-shares.md`` and
``docs/proofs/discovery.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_FLOOR, Decimal, localcontext
from itertools import accumulate, repeat
from operator import mul

from flwr_kld.kernel.law import RATIO_BITS, TOTAL, NoiseTable, noise_sum

_ROUNDING_SLACK = Decimal(2) ** -20
_SMALLEST_WEIGHT = 1 << 48
_LONGEST_REACH = 1 << 20
TWICE = "twice "
"""Before a mechanism's name: two parties add its noise, each enough for the guarantee."""
_LEAST_SIGMA = 1 / 12
"""From 1/14 down the table of Gaussian noise would be the constant 0."""


def discrete_laplace(scale: float) -> NoiseTable:
    """Build the table of ``P(Z = k) ∝ e**(-|k| / scale)``, with geometric tails."""
    # Ghosh, Roughgarden, Sundararajan 2009. It replaces the paper's Gaussian noise (PRIEST-KLD,
    # Cor. 3.1, whose printed variance is not scale-invariant) wherever pure epsilon is wanted.
    #
    # The law's own rate is ``(1 - 2**-20) / scale``: that sliver of extra noise absorbs the
    # rounding of the weights, so the implemented law is pure ``d / scale`` for an l1 change of d.
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
    """Build the bounded table of ``P(Z = k) ∝ e**(-k**2 / 2 sigma**2)``."""
    # Canonne, Kamath, Steinke 2020. The cut tail (below 2**-120) counts into delta by construction:
    # the accountant sees the bounded table that is sampled.
    if not sigma >= _LEAST_SIGMA:
        raise ValueError("noise below 1/12 of a count protects nobody: lower epsilon")
    if sigma * math.sqrt(2 * math.log(TOTAL)) > 1.1 * _LONGEST_REACH:
        raise _too_large("sigma", "epsilon or delta")  # at once, not after a million weights
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        least, curvature = 1 / Decimal(TOTAL), 1 / Decimal(sigma) ** 2
        step, shrink = (-curvature / 2).exp(), (-curvature).exp()
        relative = [weight := Decimal(1)]  # e**(-k**2 / 2 sigma**2): two multiplications an entry
        while weight > least:
            relative.append(weight := weight * step)
            step *= shrink
            if len(relative) > _LONGEST_REACH:
                raise _too_large("sigma", "epsilon or delta")
        return _table(relative)


def noise_law(mechanism: str, deviation: float) -> NoiseTable:
    """Return the law of a release's noise from what a report says of it, for estimators."""
    if mechanism.startswith(TWICE):
        return noise_sum(noise_law(mechanism.removeprefix(TWICE), deviation / math.sqrt(2)), 2)
    if mechanism.endswith("discrete-laplace"):  # of variance 2 q / (1 - q)²
        variance = deviation**2
        q = (1 + variance - math.sqrt(1 + 2 * variance)) / variance
        return discrete_laplace(-1 / math.log(q))
    return discrete_gaussian(max(deviation, _LEAST_SIGMA))


def truncated_laplace(scale: float, reach: int) -> NoiseTable:
    """Build the bounded table of ``P(Z = k) ∝ e**(-|k| / scale)`` for ``|k| <= reach``."""
    # Desfontaines, Voss, Gipson, Mandayam 2022: k-TSGD. What the outermost weight is goes into
    # delta. The rate is that of `discrete_laplace`, for the same reason.
    if reach > _LONGEST_REACH:
        raise _too_large("noise", "epsilon or delta")
    with localcontext(prec=_DIGITS, rounding=ROUND_FLOOR):
        ratio = (-(1 - _ROUNDING_SLACK) / Decimal(scale)).exp()
        return _of_ratios(repeat(ratio, reach))


def _too_large(what: str, cure: str) -> ValueError:
    return ValueError(f"{what} is too large for a table: raise {cure}")


_DIGITS = 60
_NEGLIGIBLE = 120
"""Recurrences start where the law is below e**-120, far under the smallest weight."""


def laplace_share(scale: float, clients: int) -> NoiseTable:
    """One of `clients` shares of discrete Laplace noise, ``P(sum = k) ∝ e**(-|k| / scale)``."""
    # The share is a difference of two negative binomials NB(1 / clients, 1 - q), q the ratio of the
    # discrete Laplace. Its law f has generating function ``((1-q)**2 / (1-qz)(1-q/z))**r``, ``r = 1
    # / clients``, hence
    #
    #     q (k + 1 - r) f(k+1) = (1 + q**2) k f(k) - q (k - 1 + r) f(k-1),
    #
    # which is stable when run downwards, as a recurrence for f(k) / f(k-1).
    if not scale >= 1 / 40:
        raise ValueError("noise scale below 1/40 of a count protects nobody: lower epsilon")
    if math.isinf(scale):
        raise _too_large("noise", "epsilon or delta")
    with localcontext(prec=_DIGITS, rounding=ROUND_FLOOR):
        rate = (1 - _ROUNDING_SLACK) / Decimal(scale)
        q, shape = (-rate).exp(), 1 / Decimal(clients)
        ratio, ratios = q, []
        for k in range(_start(float(_NEGLIGIBLE / rate)), 0, -1):
            ratio = q * (k - 1 + shape) / ((1 + q * q) * k - q * (k + 1 - shape) * ratio)
            ratios.append(ratio)
        return _of_ratios(reversed(ratios))


def _start(reach: float) -> int:
    if not reach < _LONGEST_REACH:
        raise _too_large("noise", "epsilon or delta")
    return math.ceil(reach) + 1


def _of_ratios(ratios: Iterable[Decimal]) -> NoiseTable:
    """Build the symmetric law with ``P(k) / P(k - 1) = ratios[k - 1]``, k = 1, 2 and so on."""
    return _table(list(accumulate(ratios, mul, initial=Decimal(1))))


def _table(relative: list[Decimal]) -> NoiseTable:
    """Build the symmetric law with ``P(k) / P(0) = relative[k]``, k = 0, 1 and so on."""
    unit = TOTAL / (2 * sum(relative, Decimal(0)) - 1)
    side = [weight for r in relative[1:] if (weight := int(unit * r))]
    centre = TOTAL - 2 * sum(side)
    return NoiseTable((*side[::-1], centre, *side))
