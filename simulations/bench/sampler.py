"""Speed of the noise sampler, against OpenDP's discrete Laplace in the same run.

pip install -e '.[bench]'
python simulations/bench/sampler.py
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from measuring import Row, cpu, measured
from rich.console import Console
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.calibration.central import calibrated_gaussian, calibrated_laplace
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits, sample

_DRAWS = 1_000_000
_REPEATS = 5


def rate(draw: Callable[[int], object], draws: int = _DRAWS) -> float:
    """Median draws a second over `_REPEATS` runs, after one warm-up."""
    draw(1000)
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        draw(draws)
        seconds.append(time.perf_counter() - began)
    return draws / statistics.median(seconds)


def opendp_laplace(scale: float) -> Callable[[int], object]:
    """OpenDP's vector discrete Laplace mechanism."""
    dp = require("opendp.prelude", extra="bench")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    mechanism = dp.m.make_laplace(*space, scale=scale)
    return lambda n: mechanism([0] * n)


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Draw noise for a hundred thousand cells, beside OpenDP; where it has to be quick, alone."""
    draws = 1000 if quick else 100_000
    for epsilon in (0.05, 1.0):
        table, bits = calibrated_laplace(Guarantee(epsilon)).table, SystemBits()
        peer = None if quick else opendp_laplace(2 / epsilon)
        yield measured(
            "noise",
            f"{draws:,} draws at ε = {epsilon:g}",
            cpu(lambda t=table, b=bits: sample(t, draws, b)),
            repeats=repeats,
            peer=None if peer is None else "OpenDP",
            theirs=None if peer is None else cpu(lambda m=peer: m(draws)),
        )


def main() -> None:
    """Print draws a second."""
    table = Table(title=f"noise draws a second, one core, median of {_REPEATS} runs")
    for name in ("ε", "discrete Laplace", "discrete Gaussian (δ 1e-6)", "OpenDP Laplace", "ratio"):
        table.add_column(name, justify="right")
    for epsilon in (0.05, 0.5, 1.0, 3.0):
        bits = SystemBits()
        laplace = calibrated_laplace(Guarantee(epsilon)).table
        gaussian = calibrated_gaussian(Guarantee(epsilon, 1e-6)).table
        ours = rate(lambda n, t=laplace, b=bits: sample(t, n, b))
        normal = rate(lambda n, t=gaussian, b=bits: sample(t, n, b))
        peer = rate(opendp_laplace(2 / epsilon), _DRAWS // 10)
        table.add_row(
            f"{epsilon:g}", f"{ours:,.0f}", f"{normal:,.0f}", f"{peer:,.0f}", f"{ours / peer:.1f}×"
        )
        drawn = sample(laplace, _DRAWS, bits)
        expected = math.sqrt(laplace.variance)
        if abs(float(np.std(drawn)) / expected - 1) > 0.02:
            raise RuntimeError("the sampler's spread is not the table's")
    Console().print(table)


if __name__ == "__main__":
    main()
