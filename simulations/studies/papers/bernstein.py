"""The integral paper's contender: a density by the Bernstein mechanism (Aldà, Rubinstein 2017).

A kernel density at k + 1 points, each with Laplace noise, made smooth by Bernstein polynomials. It
protects one record; as a draw that protects everybody, its noise is n/2 times as wide, as all n
records may change. What is free is given to it: k, bandwidth and the floor that keeps it positive
are those of a grid that do best on other draws of the noise, by the truth itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from scipy.stats import binom, norm

from flwr_kld.integral.base import Floats

DEGREES, BANDWIDTHS, FLOORS = (8, 32, 128), (0.02, 0.1), (0.01, 0.1, 0.5, 0.99)
TRIALS = 4
"""Draws of the noise by which parameters are chosen."""


def bernstein(
    histogram: Floats,
    epsilon: float,
    divergence: Callable[[Floats], float],
    rng: np.random.Generator,
    *,
    everybody: bool,
) -> Floats:
    """Return a density on n even cells of [0, 1], given the records in each."""
    cells, records = len(histogram), float(histogram.sum())
    places = (np.arange(cells) + 0.5) / cells
    found: list[tuple[float, Floats]] = []
    for degree, width in product(DEGREES, BANDWIDTHS):
        kernel = norm.pdf(np.arange(degree + 1)[:, None] / degree, places, width)
        moves = kernel.max() * (1 if everybody else 2 / records)
        noise = rng.laplace(0, (degree + 1) * moves / epsilon, (TRIALS + 1, degree + 1))
        noisy = kernel @ histogram / records + noise
        smooth = np.maximum(noisy @ _polynomials(degree, cells).T, 1e-12)
        smooth /= smooth.sum(axis=1, keepdims=True)
        for floor in FLOORS:
            densities = (1 - floor) * smooth + floor / cells
            mean = float(np.mean([divergence(density) for density in densities[:TRIALS]]))
            found.append((mean, densities[TRIALS]))
    return min(found, key=lambda one: one[0])[1]


@cache
def _polynomials(degree: int, cells: int) -> Floats:
    """Bernstein polynomials at the middles of the cells, shape [cells, degree + 1]."""
    places = (np.arange(cells) + 0.5) / cells
    return np.asarray(binom.pmf(np.arange(degree + 1), degree, places[:, None]))
