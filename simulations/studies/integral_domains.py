"""The domains of the integral-privacy study, each with its truth known exactly on cells.

The paper's: a ring of eight Gaussians, a mixture of three in one dimension, m random ones on the
line, five in the plane; points are cut into cells of equal mass under Q0 = N(0, I). Ours: real
digits as 4x4 block patterns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.integral import FiniteBase
from flwr_kld.integral.base import GaussianCells
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits

Floats = NDArray[np.float64]

RECORDS = 10_000
"""Private records; the paper's number."""
_COVERED = 0.95
_OTHER_WRITERS = 1_000_000


@dataclass(frozen=True, eq=False)
class StudyDomain:
    """A domain with its truth."""

    name: str  # For tables
    base: FiniteBase  # Q0 on n cells
    truth: Floats  # P on the cells, shape [n]
    records: NDArray[np.int64]  # Private data, as cells, shape [m]
    base_nll: float  # ``-E_P ln q0(x)`` in nats, q0 the base's density at the point itself
    base_density: Floats  # q0 at each cell's middle, shape [n]

    @property
    def on_the_line(self) -> bool:
        """Whether records are points of one dimension, in cells of even mass under the base."""
        return bool(self.base.features.shape[1] == 1)

    def kl(self, density: Floats) -> float:
        """``KL(P || Q)`` on the cells, in nats."""
        return skewed_divergence(self.truth, density, 0.0)

    def nll(self, density: Floats) -> float:
        """``-E_P ln q(x)``, the paper's first metric; q is Q's fraction of q0 in every cell."""
        seen = self.truth > 0
        return self.base_nll - float(
            self.truth[seen] @ np.log(density[seen] / self.base.mass[seen])
        )

    def mode_coverage(self, density: Floats) -> float:
        """P's mass where Q is densest, up to 95 % of Q's mass: the paper's second metric."""
        order = np.argsort(-density / self.base.mass * self.base_density, kind="stable")
        inside = np.searchsorted(np.cumsum(density[order]), _COVERED) + 1
        return float(self.truth[order[:inside]].sum())


@dataclass(frozen=True)
class Gaussians:
    """An even mixture of Gaussians with axes of their own; centres [k][d], deviations [k]."""

    centres: tuple[tuple[float, ...], ...]
    deviations: tuple[float, ...]

    def on(self, grid: GaussianCells) -> Floats:
        """Exact masses of the grid's cells."""
        edges = norm.ppf(np.linspace(0, 1, grid.per_axis + 1))
        total = np.zeros(grid.cells)
        for centre, deviation in zip(self.centres, self.deviations, strict=True):
            mass = np.ones(1)
            for middle in centre:
                axis = np.diff(norm.cdf(edges, middle, deviation))
                mass = np.multiply.outer(mass, axis).ravel()
            total += mass
        return np.asarray(total / total.sum())

    def base_nll(self) -> float:
        """``-E ln N(x; 0, I)``: a matter of second moments."""
        centres = np.array(self.centres)
        square = (centres**2).sum(axis=1) + centres.shape[1] * np.square(self.deviations)
        return float(centres.shape[1] / 2 * math.log(2 * math.pi) + square.mean() / 2)


def ring(seed: int) -> StudyDomain:
    """Eight Gaussians on a circle."""
    angles = np.arange(8) * np.pi / 4
    centres = tuple((1.5 * math.cos(a), 1.5 * math.sin(a)) for a in angles)
    return _on_cells("ring", GaussianCells(2, 96), Gaussians(centres, (0.15,) * 8), seed)


def scattered(seed: int) -> StudyDomain:
    """Place five Gaussians at random in the plane, away from the base's middle."""
    places = np.random.default_rng([5, seed]).uniform(-2, 2, (5, 2))
    centres = tuple(map(tuple, places.tolist()))
    return _on_cells("scattered", GaussianCells(2, 96), Gaussians(centres, (0.25,) * 5), seed)


def mixture(seed: int) -> StudyDomain:
    """Three Gaussians in one dimension; the paper's second parameter is a variance."""
    deviations = tuple(v**0.5 for v in (0.01, 0.1, 0.1))
    law = Gaussians(((0.3,), (0.5,), (0.7,)), deviations)
    return _on_cells("mixture", GaussianCells(1, 2048), law, seed)


def random_gaussians(number: int, seed: int) -> StudyDomain:
    """Place `number` Gaussians of variance 0.01 with centres uniform on [0, 1]."""
    generator = np.random.default_rng([number, seed])
    centres = tuple((c,) for c in generator.random(number).tolist())
    law = Gaussians(centres, (0.1,) * number)
    return _on_cells(f"random {number}", GaussianCells(1, 2048), law, seed)


def patterns(seed: int) -> StudyDomain:
    """Real digits as 4x4 patterns, written by virtual writers; the truth is 1,000 other writers."""
    source = load_digits(1)
    domain = source.patterns()
    writers = WriterResampler(source, seed)
    truth = np.zeros(domain.size)
    for number in range(1000):
        truth += np.bincount(
            domain.encode(writers.writer(number, 100).images), minlength=domain.size
        )
    own = range(_OTHER_WRITERS, _OTHER_WRITERS + RECORDS // 100)
    records = np.concatenate([domain.encode(writers.writer(i, 100).images) for i in own])
    base = FiniteBase.uniform(domain)
    return StudyDomain(
        "patterns", base, truth / truth.sum(), records, math.log(domain.size), base.mass
    )


def _on_cells(name: str, grid: GaussianCells, law: Gaussians, seed: int) -> StudyDomain:
    truth = law.on(grid)
    records = np.random.default_rng(seed).choice(grid.cells, RECORDS, p=truth)
    density = norm.pdf(grid.base.features).prod(axis=1)
    return StudyDomain(name, grid.base, truth, records, law.base_nll(), density)
