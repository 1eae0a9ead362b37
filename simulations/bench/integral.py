"""Speed of integral privacy: boosting, projection, exact draws.

python simulations/bench/integral.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld.integral import FiniteBase, GaussianBase, Mollifier, Sampler, mbde, mollify, project
from flwr_kld.integral.base import GaussianCells
from flwr_kld.integral.sampler import Law
from flwr_kld.simulations.studies.integral_domains import mixture, patterns, ring

_REPEATS = 5
_SYMBOLS = 65_536


def seconds(run: Callable[[], object]) -> float:
    """Median time of several runs."""
    taken = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def tasks() -> list[tuple[str, str, Callable[[], object]]]:
    """Name, target and work of each measurement."""
    found: list[tuple[str, str, Callable[[], object]]] = []
    symmetric, peaked_box = Mollifier.symmetric(1.0), Mollifier.asymmetric(1.0, 0.02)
    for make in (ring, mixture, patterns):
        d = make(0)
        name = f"T = 10, 10,000 samples: {d.name}"
        found.append((f"MBDE, tree, {name}", "<= 10 s", partial(mbde, d.records, d.base, 1.0)))
        found.append(
            (f"mollify, {name}", "<= 10 s", partial(mollify, d.records, d.base, symmetric))
        )
    base = FiniteBase(np.full(_SYMBOLS, 1 / _SYMBOLS), np.arange(_SYMBOLS, dtype=float)[:, None])
    peaked = np.random.default_rng(0).dirichlet(np.full(_SYMBOLS, 0.02))
    steep = np.exp(-np.random.default_rng(0).uniform(0, 600, _SYMBOLS))
    for name, target in (("peaked", peaked), ("over 600 nats", steep)):
        work = partial(project, target, base, peaked_box)
        found.append((f"projection of 65,536 symbols, {name}", "<= 20 ms", work))
    law = mollify(np.arange(1000), base, symmetric, rounds=1)
    found.append(
        ("100,000 exact draws from 65,536 symbols", "<= 1 s", partial(drawn, law, 100_000))
    )
    points = GaussianCells(2, 96).points(ring(0).records)
    plane = mbde(points, GaussianBase(2), 1.0)
    name = f"10,000 draws on R^2, ε = 1, {plane.tries} tries each"
    found.append((name, "<= 1 s", partial(drawn, plane, 10_000)))
    return found


def drawn(law: Law, size: int) -> NDArray[Any]:
    """Draw through a sampler, as one must."""
    return Sampler(law, size).draw(size)


def main() -> None:
    """Print the times."""
    table = Table(title=f"one core, median of {_REPEATS} runs")
    for heading in ("what", "target", "time"):
        table.add_column(heading, justify="right")
    for name, target, run in track(tasks(), description="measuring", transient=True):
        taken = seconds(run)
        table.add_row(name, target, f"{1000 * taken:,.1f} ms")
    Console().print(table)


if __name__ == "__main__":
    main()
