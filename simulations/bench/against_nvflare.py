"""A description of a table at five sites, beside NVFLARE's statistics in its simulator.

January's flights, six columns of numbers: counts, means, deviations, histograms of 20 bins; here
with intervals at ε = 1. CPU of each from nothing to the result, so of NVFLARE's processes, too, and
of starting Python and reading the rows here. NVFLARE's is its own environment, as it wants other
versions; `make bench` makes that.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from measuring import Row, in_a_process, numpy_seconds, x25519_seconds

from flwr_kld import Binned, Table
from flwr_kld.common.extras import require
from flwr_kld.simulations import simulate
from flwr_kld.simulations.flights import NUMBERS, Flights
from flwr_kld.strategies import Statistics, Trusted

_SITES = 5
_PYTHON = Path(sys.prefix).with_name("nvflare") / "bin" / "python"
_JOB = Path(__file__).with_name("nvflare_job.py")


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Describe the table once each; alone if quick."""
    with TemporaryDirectory() as folder:
        low, high = write_sites(Path(folder))
        before = _children()
        in_a_process(describe, Path(folder), low, high)
        ours, theirs = _children() - before, None
        if not quick:
            command = [_PYTHON, _JOB, folder, str(_SITES)]
            subprocess.run(command, check=True, capture_output=True, cwd=_JOB.parent)
            if not list(Path(folder).rglob("statistics.json")):
                raise RuntimeError("NVFLARE wrote no statistics")
            theirs = _children() - before - ours
    yield Row(
        "against_nvflare", f"description of {len(NUMBERS)} columns at {_SITES} sites", ours,
        x25519_seconds(), numpy_seconds(),
        peer=None if quick else "NVFLARE's statistics", peer_seconds=theirs,
    )  # fmt: skip


def write_sites(folder: Path) -> tuple[list[float], list[float]]:
    """Deal flights to the sites' files; return each column's ends."""
    pandas, flights = require("pandas", extra="flights"), Flights.load()
    january = flights.of(None, 1)
    frame = pandas.DataFrame({name: january[name] for name in NUMBERS}).dropna()
    for site in range(_SITES):
        frame.iloc[site::_SITES].to_csv(folder / f"site-{site + 1}.csv", index=False)
    return frame.min().tolist(), frame.max().tolist()


def describe(folder: Path, low: list[float], high: list[float]) -> None:
    """Ask the sites what their rows look like, in this process."""
    pandas = require("pandas", extra="flights")
    edges = zip(NUMBERS, low, high, strict=True)
    table = Table({name: Binned(np.linspace(a, b, 21)[1:-1].tolist()) for name, a, b in edges})
    frames = [pandas.read_csv(folder / f"site-{site + 1}.csv") for site in range(_SITES)]
    simulate(Statistics(table, Trusted(1.0, 1e-6)), frames)


def _children() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
