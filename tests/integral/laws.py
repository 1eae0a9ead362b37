"""Exact laws of samplers on small domains, and all small data sets."""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np

from flwr_kld.integral import FiniteBase, Mollifier
from flwr_kld.integral.draws import BoxLaw
from flwr_kld.kernel.law import TOTAL


def finite_base(mass) -> FiniteBase:
    mass = np.asarray(mass, dtype=float)
    return FiniteBase(mass / mass.sum(), np.arange(len(mass), dtype=float)[:, None])


def contains(box: Mollifier, density, base: FiniteBase) -> bool:
    """Whether a density is in the box, up to float64 rounding."""
    low, high = box.floor * base.mass, box.ceiling * base.mass
    inside = (density >= low * (1 - 1e-12)) & (density <= high * (1 + 1e-12))
    return bool(inside.all()) and abs(float(density.sum()) - 1) <= 1e-12


def kl(p, q) -> float:
    seen = p > 0
    return float(p[seen] @ np.log(p[seen] / q[seen]))


def data_sets(symbols: int, sizes) -> list[np.ndarray]:
    """Every multiset of the given sizes."""
    return [
        np.array(records)
        for size in sizes
        for records in combinations_with_replacement(range(symbols), size)
    ]


def box_weights(law: BoxLaw) -> list[int]:
    """Integer weights that draws follow, read from what draws them."""
    bounds = [0, *law._law._bounds]
    return [high - low for low, high in pairwise(bounds)]


def largest_ratio(laws) -> Fraction:
    """Largest ratio of what two of these laws give one symbol, over all pairs and symbols."""
    return max(Fraction(max(column)) / Fraction(min(column)) for column in zip(*laws, strict=True))


def is_member(weights, box):
    """Whether integer weights are a law of this box, exactly."""
    if len(weights) != len(box.lower):
        return False
    bounds = zip(box.lower, weights, box.upper, strict=True)
    return sum(weights) == TOTAL and all(low <= weight <= high for low, weight, high in bounds)
