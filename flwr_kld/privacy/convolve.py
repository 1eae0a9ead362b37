"""The law of the noise that reached the sum: convolution of the shares, in exact integers.

Polynomials with integer coefficients are multiplied as two very long decimal numbers (Kronecker),
by the number-theoretic transform inside Python's `decimal`. Nothing is rounded but the result,
downwards.
Proof note: ``docs/proofs/delivered-epsilon.md``.
"""

from __future__ import annotations

from decimal import MAX_EMAX, Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import whole
from flwr_kld.privacy.table import TOTAL, TOTAL_BITS, NoiseTable

_WIDTH = len(str(TOTAL * TOTAL))
"""Decimal digits that hold any coefficient of a product of two laws."""


@lru_cache(maxsize=32)
def noise_sum(share: NoiseTable, copies: int) -> NoiseTable:
    """Law of the sum of `copies` independent draws from `share`, from below.

    Parameters
    ----------
    share : NoiseTable
        What each client adds.
    copies : int
        Number of copies, >= 1.

    Returns
    -------
    NoiseTable
        Whose weights are lower bounds of the true probabilities. What the rounding lost (some
        ``copies × cells / 2**128``) and the mass of tails are booked as its tail, so accountants
        count it into delta; where in the tail it lies is not claimed.

    Raises
    ------
    ValueError
        If `copies` is below 1.
    """
    copies = whole("copies", copies, least=1)
    if copies == 1:
        return share
    power, law = list(share.weights), None
    while True:
        if copies & 1:
            law = power if law is None else _product(law, power)
        copies >>= 1
        if not copies:
            break
        power = _product(power, power)
    return _from_below(law or power)


def _product(a: list[int], b: list[int]) -> list[int]:
    """Convolve two symmetric laws: weights are rounded down, zeros at the ends cut off."""
    cells = len(a) + len(b) - 1
    middle = cells // 2
    first = _joined(a)
    second = first if a is b else _joined(b)
    with localcontext(prec=_WIDTH * (cells + 1), Emax=MAX_EMAX):
        long = str(first * second).zfill(_WIDTH * cells)
    right = []  # the half from 0 upwards
    for i in range(_WIDTH * middle, _WIDTH * cells, _WIDTH):
        weight = int(long[i : i + _WIDTH]) >> TOTAL_BITS
        if not weight:
            break
        right.append(weight)
    return right[:0:-1] + right


def _joined(weights: list[int]) -> Decimal:
    return Decimal("".join([f"{w:0{_WIDTH}d}" for w in weights]))


def _from_below(weights: list[int]) -> NoiseTable:
    lost = TOTAL - sum(weights)
    weights[len(weights) // 2] -= lost % 2  # a tail is even
    lost += lost % 2
    return NoiseTable(tuple(weights), lost, 1 if lost else 0)


def on_coarser_grid(law: NoiseTable, grid: int) -> NoiseTable:
    """Return the law that noise has after `to_counts`.

    ``round((grid h + Z) / grid) = h + round(Z / grid)`` for integers h: post-processing.

    Parameters
    ----------
    law : NoiseTable
        Of Z, in grid steps.
    grid : int
        Grid steps a count; odd, so that nothing lies half way.
    """
    half = grid // 2
    reach = -(-law.reach // grid)
    wide = [0] * (reach * grid + half - law.reach)
    steps = [*wide, *law.weights, *wide]
    weights = [sum(steps[i : i + grid]) for i in range(0, len(steps), grid)]
    while weights[0] == 0:
        weights = weights[1:-1]
    return NoiseTable(tuple(weights), law.tail, law.tail_ratio)


def to_counts(values: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Round values in grid steps, shape [cells], to whole counts."""
    return np.floor_divide(values + grid // 2, grid)
