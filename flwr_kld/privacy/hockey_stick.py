"""Exact privacy of an implemented noise table: the hockey-stick divergence to its shifted self.

Proof note: ``docs/proofs/noise-table.md``.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from flwr_kld.arguments import real, several, whole
from flwr_kld.privacy.table import TOTAL, NoiseTable

_DOWN = Context(prec=60, rounding="ROUND_FLOOR")
_SLACK = Fraction(1, 1 << 40)
"""Covers picking the optimal set by float64 comparison (a wrong pick understates by < 1e-12)."""


def exp_below(epsilon: float) -> Fraction:
    """Return a rational just below ``e**epsilon`` (relative error < 1e-57)."""
    # Decimal.exp is correctly rounded to nearest whatever the mode; one step down makes it a bound.
    return Fraction(_DOWN.next_minus(Decimal(epsilon).exp(_DOWN)))


def hockey_stick(table: NoiseTable, shifts: tuple[int, ...], epsilon: float) -> Fraction:
    """Smallest delta such that noise from `table` hides the integer move `shifts` at `epsilon`.

    It is the divergence ``sup_S P(S) - e**eps Q(S)``, P the law of independent noise on every
    coordinate and Q the same law moved by `shifts`, computed on the table's own integers.

    Parameters
    ----------
    table : NoiseTable
        The noise on every coordinate.
    shifts : tuple[int, ...]
        Non-zero moves of one or two coordinates, in counts: ``(1, -1)`` for replacing a record,
        ``(1,)`` for adding or removing one, ``(k,)`` for a scalar of sensitivity k. A longer tuple
        is answered only where the table is pure at `epsilon`.
    epsilon : float
        In nats, >= 0.

    Returns
    -------
    Fraction
        An upper bound, exactly 0 where the table is pure at `epsilon`, and otherwise at most 1e-12
        plus the mass of the table's tail above the true divergence.

    Raises
    ------
    ValueError
        If an argument is out of range, or more than two coordinates move and the table is not pure
        at `epsilon`.
    """
    epsilon, shifts = real("epsilon", epsilon, least=0, unit="nats"), check_shifts(shifts)
    bound = exp_below(epsilon)
    step = table.step_ratio
    if step is not None and step ** sum(map(abs, shifts)) <= bound:
        return Fraction(0)
    if len(shifts) > 2:
        raise ValueError("only pure noise is accounted for when more than two coordinates move")
    first = _pairs(table, shifts[0])
    second = _pairs(table, shifts[1]) if len(shifts) == 2 else [(TOTAL, TOTAL)]
    lost = len(shifts) * Fraction(table.tail, TOTAL)
    return _two_coordinates(first, second, bound, epsilon) + lost + _SLACK


def check_shifts(shifts: tuple[int, ...]) -> tuple[int, ...]:
    """Return moves as Python's numbers; ValueError unless there is one and all are whole."""
    whole_shifts = tuple(whole("a shift", shift) for shift in several("shifts", shifts))
    if not whole_shifts:
        raise ValueError("shifts must move at least one coordinate")
    return whole_shifts


def _pairs(table: NoiseTable, shift: int) -> list[tuple[int, int]]:
    """Weights (P(k), P(k - shift)) for k inside the table, 0 where k - shift falls outside."""
    moved = abs(shift)  # the law is symmetric, so the sign does not matter
    return list(zip(table.weights, (0,) * moved + table.weights, strict=False))


def _two_coordinates(
    first: list[tuple[int, int]], second: list[tuple[int, int]], bound: Fraction, epsilon: float
) -> Fraction:
    """Sum of ``max(0, p p' - e**eps q q')`` over all pairs of cells, in O(n log n)."""
    ordered = sorted((_loss(p, q), p, q) for p, q in second)
    losses = np.array([loss for loss, _, _ in ordered])
    # Suffix sums of the second coordinate: above a threshold on its loss, everything counts.
    p_above, q_above = [0], [0]
    for _, p, q in reversed(ordered):
        p_above.append(p_above[-1] + p)
        q_above.append(q_above[-1] + q)
    wanted = np.array([epsilon - _loss(p, q) for p, q in first])
    count = len(losses) - np.searchsorted(losses, wanted, side="right")
    gain = sum(p * p_above[n] for (p, _), n in zip(first, count, strict=True))
    cost = sum(q * q_above[n] for (_, q), n in zip(first, count, strict=True))
    return Fraction(gain - bound * cost, TOTAL * TOTAL)


def _loss(p: int, q: int) -> float:
    return math.log(p) - math.log(q) if q else math.inf
