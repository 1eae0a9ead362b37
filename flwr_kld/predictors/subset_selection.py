"""Subset selection: report d classes, the true one more likely among them than it should be.

Ye and Barg 2018: order-optimal for estimation at small and middle epsilon, where randomised
response over many classes says almost nothing. Proof note: ``docs/proofs/ldp-channels.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from flwr_kld.arguments import real, whole
from flwr_kld.predictors.channel import MatrixChannel
from flwr_kld.privacy.hockey_stick import exp_below
from flwr_kld.privacy.table import TOTAL

MOST_CLASSES = 14
"""Keeps the matrix small (at most 14 × 3,432); more labels are hashed to this many classes."""
_SLACK = Fraction(1, 1 << 60)


class SubsetSelection(MatrixChannel):
    """Symbol s is the s-th subset of size d in lexicographic order.

    Parameters
    ----------
    classes : int
        C, from 2 to `MOST_CLASSES`.
    epsilon : float
        In nats; d is the integer next to ``C / (e**epsilon + 1)``, at least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    kind = "subset-selection"

    def __init__(self, classes: int, epsilon: float) -> None:
        classes = whole("classes", classes, least=2, most=MOST_CLASSES)
        epsilon = real("epsilon", epsilon, above=0, unit="nats")
        super().__init__(_rows(classes, epsilon), epsilon)


@lru_cache(maxsize=8)
def _rows(classes: int, epsilon: float) -> list[list[int]]:
    """Weights ∝ e**epsilon for subsets that hold the class, ∝ 1 for others, each sum 2**128."""
    ratio = exp_below(epsilon) * (1 - _SLACK)  # room for what rounding moves
    size = max(1, round(classes / (math.exp(min(epsilon, 700.0)) + 1)))
    holding = math.comb(classes - 1, size - 1)
    other = TOTAL / (ratio * holding + math.comb(classes - 1, size))
    subsets = list(combinations(range(classes), size))
    rows = [[int(other * ratio) if c in s else int(other) for s in subsets] for c in range(classes)]
    for row in rows:
        for symbol in range(TOTAL - sum(row)):  # fewer than there are symbols
            row[symbol] += 1
    return rows
