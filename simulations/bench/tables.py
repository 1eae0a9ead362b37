"""Speed, memory and message size of checks of wide tables, in this process.

    python simulations/bench/tables.py

1,000 clients with 100 rows of 50 or 380 columns of numbers, 20 bins each; ε = 1 for all columns
together. Once the 50 columns are counted by site, too, in 20 segments. The ClientApp and ServerApp
code of a deployment runs over real Flower messages, one node a client. Rows are made before the
clock starts; encoding and counting are on it. With a threshold, half of the clients are asked a
second question and each column is decided on.
"""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table as Printed

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.query.partition import Partition
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

CLIENTS, ROWS, BINS, COLUMNS = 1000, 100, 20, (50, 380)
SITES = [f"site {i}" for i in range(20)]
_POOL = 20
"""Different clients; the others hold the same rows as one of these."""
_CHECKS, _ENCODED = 3, 100_000

Rows = dict[str, NDArray[Any]]


def table_of(columns: int, *, by_site: bool = False) -> Table:
    """Return so many columns of standard normal numbers in equally likely bins."""
    sample = np.random.default_rng(0).normal(size=100_000)
    edges = np.quantile(sample, np.linspace(0, 1, BINS + 1)[1:-1]).tolist()
    numbers = {f"column {i}": Binned(edges) for i in range(columns)}
    return Table({**numbers, "site": Labels(SITES)}, by="site") if by_site else Table(numbers)


def rows_of(table: Table, rows: int, generator: np.random.Generator) -> Rows:
    """Draw rows that have not drifted."""
    return {
        name: generator.choice(SITES, rows)
        if isinstance(feature, Labels)
        else generator.normal(size=rows)
        for name, feature in table.features.items()
    }


def check(
    columns: int, threshold: float | None, *, by_site: bool
) -> tuple[list[float], list[float], float, float]:
    """Run checks; return the seconds of each, those of the processor, and bytes down and up."""
    table, generator = table_of(columns, by_site=by_site), np.random.default_rng(1)
    pool = [rows_of(table, ROWS, generator) for _ in range(_POOL)]
    reference = Reference.from_samples(table, rows_of(table, 1000 * BINS, generator))
    app = ClientApp()

    def records(context: Context) -> Rows:
        return pool[int(context.node_config["partition-id"]) % _POOL]

    answer_drift_queries(app, records, table)
    grid = InProcessGrid(app, CLIENTS)
    monitor = KLDrift(reference, Trusted(1.0, 1e-6), threshold=threshold)
    costs, processor = [], [time.process_time()]
    for _ in range(_CHECKS):
        costs.append(monitor.check(grid).cost)
        processor.append(time.process_time())
    seconds = [cost.seconds for cost in costs]
    of_processor = np.diff(processor).tolist()
    return seconds, of_processor, costs[-1].bytes_down or 0, costs[-1].bytes_up or 0


def values_per_second(columns: int) -> float:
    """Encode and count one client's rows; return rows × columns a second of CPU time."""
    table, generator = table_of(columns), np.random.default_rng(2)
    rows = rows_of(table, _ENCODED, generator)
    reference = Reference.from_samples(table, rows)
    plan = Partition().draw(reference, generator)
    best = np.inf
    for _ in range(_CHECKS):
        began = time.process_time()
        ClientRows.count(
            [table.encode(rows)], plan.cell_of, plan.layout, Guarantee(1.0), SystemBits()
        )
        best = min(best, time.process_time() - began)
    return float(_ENCODED * columns / best)


def main() -> None:
    """Run the benchmark."""
    console = Console()
    printed = Printed(title=f"{CLIENTS:,} clients × {ROWS} rows, {BINS} bins a column")
    for name in ("columns", "decides", "seconds", "CPU", "first CPU", "down", "up", "peak memory"):
        printed.add_column(name, justify="right")
    settings = [
        *((columns, threshold, False) for columns in COLUMNS for threshold in (None, 0.05)),
        (COLUMNS[0], 0.05, True),
    ]
    for columns, threshold, by_site in track(settings, description="checks", transient=True):
        seconds, processor, down, up = check(columns, threshold, by_site=by_site)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        printed.add_row(
            f"{columns} × {len(SITES)} sites" if by_site else str(columns),
            "no" if threshold is None else "yes",
            f"{statistics.median(seconds):.2f}",
            f"{statistics.median(processor):.2f}", f"{processor[0]:.2f}",
            f"{down / 1000:,.1f} kB", f"{up / 1000:,.1f} kB", f"{peak:,.0f} MB",
        )  # fmt: skip
    console.print(printed)
    console.print(
        f"one client encodes and counts {values_per_second(COLUMNS[0]) / 1e6:.1f} million "
        f"rows × columns a second ({_ENCODED:,} rows of {COLUMNS[0]} columns)"
    )


if __name__ == "__main__":
    main()
