"""Privacy of an implemented noise table: the hockey-stick divergence to its shifted self.

Exact for one and two coordinates, a close upper bound for more.
Proof notes: ``docs/proofs/noise-table.md``, ``docs/proofs/table-noise.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from flwr_kld.arguments import real, several, whole
from flwr_kld.privacy.loss_distribution import composed_delta, loss_distribution
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
        Moves of the coordinates, in counts: ``(1, -1)`` for replacing a record, ``(1,)`` for adding
        or removing one, ``(1, -1) * d`` for replacing one that is counted in d columns, ``(k,)``
        for a scalar of sensitivity k.
    epsilon : float
        In nats, >= 0.

    Returns
    -------
    Fraction
        An upper bound, exactly 0 where the table is pure at `epsilon`. For one and two coordinates
        it is otherwise at most 1e-12 plus the mass of the table's tail above the true divergence;
        for more, at most the divergence at ``0.9999 * epsilon`` and as little.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    epsilon, shifts = real("epsilon", epsilon, least=0, unit="nats"), check_shifts(shifts)
    if is_pure(table, sum(map(abs, shifts)), epsilon):
        return Fraction(0)
    if len(shifts) > 2:
        times = sorted(Counter(abs(shift) for shift in shifts if shift).items())  # one rounding
        return composed_delta([(loss_distribution(table, s), n) for s, n in times], epsilon)
    first = _moved(table, abs(shifts[0]))  # the law is symmetric, so signs do not matter
    second = _moved(table, abs(shifts[1])) if len(shifts) == 2 else _STILL
    lost = len(shifts) * Fraction(table.tail, TOTAL)
    return _two_coordinates(first, second, exp_below(epsilon), epsilon) + lost + _SLACK


def is_pure(table: NoiseTable, norm: int, epsilon: float) -> bool:
    """Whether noise from `table` hides every move of this l1 norm at `epsilon` with delta = 0."""
    return table.step_ratio is not None and table.step_ratio**norm <= exp_below(epsilon)


def check_shifts(shifts: tuple[int, ...]) -> tuple[int, ...]:
    """Return moves as Python's numbers; ValueError unless there is one and all are whole."""
    whole_shifts = tuple(whole("a shift", shift) for shift in several("shifts", shifts))
    if not whole_shifts:
        raise ValueError("shifts must move at least one coordinate")
    return whole_shifts


def _loss(p: int, q: int) -> float:
    return math.log(p) - math.log(q) if q else math.inf


class _Moved:
    """One coordinate's law and itself moved: all that does not depend on epsilon.

    Parameters
    ----------
    pairs : list[tuple[int, int]]
        Weights (P(k), P(k - shift)) for k inside the table, 0 where k - shift falls outside.
    """

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = pairs
        self.losses = np.array([_loss(p, q) for p, q in pairs])

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The losses, ascending."""
        return np.sort(self.losses)

    @cached_property
    def largest(self) -> tuple[list[int], list[int]]:
        """Sums of P and of Q over this many of the largest losses, none first."""
        falling = [self.pairs[i] for i in np.argsort(-self.losses)]
        p_sums, q_sums = (list(accumulate((w[i] for w in falling), initial=0)) for i in (0, 1))
        return p_sums, q_sums


_STILL = _Moved([(TOTAL, TOTAL)])


@lru_cache(maxsize=8)
def _moved(table: NoiseTable, shift: int) -> _Moved:
    return _Moved(list(zip(table.weights, (0,) * shift + table.weights, strict=False)))


def _two_coordinates(first: _Moved, second: _Moved, bound: Fraction, epsilon: float) -> Fraction:
    """Sum of ``max(0, p p' - e**eps q q')`` over all pairs of cells, in O(n log n)."""
    # Above a threshold on the second coordinate's loss, everything counts.
    wanted = epsilon - first.losses
    count = (len(second.losses) - np.searchsorted(second.ordered, wanted, "right")).tolist()
    p_largest, q_largest = second.largest
    gain = sum(p * p_largest[n] for (p, _), n in zip(first.pairs, count, strict=True))
    cost = sum(q * q_largest[n] for (_, q), n in zip(first.pairs, count, strict=True))
    return Fraction(gain - bound * cost, TOTAL * TOTAL)
