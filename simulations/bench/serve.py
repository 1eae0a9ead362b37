"""How long pages of ``flwr-kld serve`` take where very many checks are stored.

    python simulations/bench/serve.py --checks 10000 --columns 20

Writes a ledger whose nightly checks of a table have the report of one real check, and asks for each
page: once in a process that has read nothing of it, then again. Milliseconds of wall time without
the network, and the median of the processor's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from rich.console import Console
from rich.table import Table as Printed
from starlette.testclient import TestClient

from flwr_kld import Binned, Reference, Table
from flwr_kld.accounting import Budget, Cost, Ledger
from flwr_kld.accounting.view import LedgerView
from flwr_kld.clients import answer_drift_queries
from flwr_kld.kernel import Guarantee
from flwr_kld.operate.door import Door
from flwr_kld.operate.pages import Pages, site
from flwr_kld.report.report import Report
from flwr_kld.simulations.bench.stored_checks import write_checks
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

_CLIENTS, _ROWS, _BINS = 100, 200, 20
_REPEATS = 5


def real_report(columns: int) -> Report:
    """Check a table of this many columns, one of which has drifted."""
    edges = np.linspace(-2, 2, _BINS - 1).tolist()
    table = Table({f"column {i}": Binned(edges) for i in range(columns)})

    def rows(number: int, seed: int, shift: float) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        drawn = {name: generator.normal(size=number) for name in table.columns}
        return {**drawn, "column 0": drawn["column 0"] + shift}

    app = ClientApp()

    def records(context: Context) -> dict[str, np.ndarray]:
        return rows(_ROWS, int(context.node_config["partition-id"]), 1.0)

    answer_drift_queries(app, records, table)
    reference = Reference.from_samples(table, rows(20_000, 10**6, 0.0))
    monitor = KLDrift(reference, Trusted(1.0, 1e-6), threshold=0.05, seed=7)
    return monitor.check(InProcessGrid(app, _CLIENTS))


def fill(ledger: Ledger, report: Report, number: int) -> None:
    """Write a check a night until now, settled with this report, on the same clients."""
    first = datetime.now(UTC) - timedelta(days=number)
    ledger.set_budget(Budget(1.0, 1e-6, 30), now=first.timestamp())
    values = report.to_dict()
    nights = [first + timedelta(days=i) for i in range(number)]
    settled = (
        (
            f"{night:%F}",
            int(night.timestamp()),
            json.dumps({**values, "key": f"{night:%F}", "started": night.isoformat()}),
            np.arange(_CLIENTS),
        )
        for night in nights
    )
    with ledger._database.writing() as connection:
        cost = Cost.claimed("discrete-laplace", Guarantee(0.01))
        write_checks(connection, cost, _CLIENTS, settled)


def main() -> None:
    """Write the ledger, and print what each page takes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--checks", type=int, default=10_000)
    options.add_argument("--columns", type=int, default=20)
    chosen = options.parse_args()
    report = real_report(chosen.columns)
    size = len(report.to_json()) / 1000
    table = Printed(
        title=f"{chosen.checks:,} checks of {chosen.columns} columns, reports of {size:.0f} kB: ms"
    )
    for name in ("page", "first time", "median", "most", "processor"):
        table.add_column(name, justify="left" if name == "page" else "right")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'drift.db'}"
        fill(Ledger(url), report, chosen.checks)
        LedgerView(url).spent("default")  # the first composition imports what composes
        pages = Pages(LedgerView(url))
        pages.warm_up()  # as `flwr-kld serve` does when it starts
        app = Door(site(pages), token=None)
        client = TestClient(app, base_url="http://localhost")
        client.get("/style.css")
        old = chosen.checks // 2
        for page in (
            "/",
            "/checks?population=default",
            f"/checks?population=default&before={old}",
            f"/check?number={chosen.checks}",
            f"/check?number={old}",
            "/stamp",
            "/plot.svg?population=default",
        ):
            taken, busy = [], []
            for _ in range(1 + _REPEATS):
                began, worked = time.perf_counter(), time.process_time()
                client.get(page).raise_for_status()
                taken.append(1000 * (time.perf_counter() - began))
                busy.append(1000 * (time.process_time() - worked))
            first, *again = taken
            figures = (first, statistics.median(again), max(again), statistics.median(busy[1:]))
            table.add_row(page, *(f"{figure:.0f}" for figure in figures))

    Console().print(table)


if __name__ == "__main__":
    main()
