"""Speed of integral privacy: boosting, projection, exact draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from measuring import Row, cpu, measured

from flwr_kld.integral import FiniteBase, GaussianBase, Mollifier, Sampler, mbde, mollify, project
from flwr_kld.integral.base import GaussianCells
from flwr_kld.integral.sampler import Law
from flwr_kld.simulations.studies.integral_domains import mixture, patterns, ring

_SYMBOLS = 65_536


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Fit laws to 10,000 samples in ten rounds, project 65,536 symbols, and draw."""
    for what, run in _tasks(1_000 if quick else _SYMBOLS, (ring,) if quick else None):
        yield measured("integral", what, cpu(run), repeats=repeats)


def _tasks(
    symbols: int, domains: tuple[Callable, ...] | None
) -> Iterator[tuple[str, Callable[[], object]]]:
    symmetric = Mollifier.symmetric(1.0)
    for make in domains or (ring, mixture, patterns):
        d = make(0)
        yield f"MBDE, tree: {d.name}", partial(mbde, d.records, d.base, 1.0)
        yield f"mollify: {d.name}", partial(mollify, d.records, d.base, symmetric)
    base = FiniteBase(np.full(symbols, 1 / symbols), np.arange(symbols, dtype=float)[:, None])
    peaked = np.random.default_rng(0).dirichlet(np.full(symbols, 0.02))
    steep = np.exp(-np.random.default_rng(0).uniform(0, 600, symbols))
    box = Mollifier.asymmetric(1.0, 0.02)
    for name, target in (("peaked", peaked), ("over 600 nats", steep)):
        yield f"projection of {symbols:,} symbols, {name}", partial(project, target, base, box)
    law = mollify(np.arange(1000), base, symmetric, rounds=1)
    yield f"100,000 exact draws from {symbols:,} symbols", partial(_draw, law, 100_000)
    plane = mbde(GaussianCells(2, 96).points(ring(0).records), GaussianBase(2), 1.0)
    yield f"10,000 draws on R^2, {plane.tries} tries each", partial(_draw, plane, 10_000)


def _draw(law: Law, size: int) -> object:
    """Draw through a sampler, as one must."""
    return Sampler(law, size).draw(size)
