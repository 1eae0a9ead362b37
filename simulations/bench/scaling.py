"""How a check's CPU and memory grow: with clients, cells, columns and records, in this process.

And a night's of a standing session, beside the same check's.

ClientApp and ServerApp code as on a deployment, over Flower's messages; a node hosts a thousand
clients. Records are made before the clock starts; every size has a process of its own. The peer is
counting alone: `numpy.bincount` of the same records.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from measuring import Row, Timed, cpu, in_a_process, measured

from flwr_kld import Binned, Reference, Table
from flwr_kld.clients import host_drift_queries
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import HostedClients, KLDrift, Standing, Trusted
from flwr_kld.table.base import Domain
from flwr_kld.trust import Trust

_HOSTED = 1000
"""Clients of a node."""
_POOL = 256
"""Clients with records of their own; each other one has the same as one of these."""
USUAL = {"clients": 400, "records": 50, "cells": 1000, "columns": 1}
"""A check of which one number grows; tables have 20 cells a column."""
AXES = {
    "clients": (50, 1_000, 10_000, 100_000),
    "deciding clients": (50, 1_000, 10_000),
    "clients of a night": (50, 1_000, 10_000),
    "cells": (100, 8_000, 65_536),
    "columns": (2, 20, 100, 380),
    "deciding columns": (50, 380),
    "records": (10, 1_000, 10_000),
}


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Measure every size of every axis; of each the first two where it has to be quick."""
    for axis, sizes in AXES.items():
        for size in sizes[:2] if quick else sizes:
            yield in_a_process(point, axis, size, repeats)


def point(axis: str, size: int, repeats: int) -> Row:
    """Measure one size in this process."""
    if axis.startswith("clients of a night"):
        with TemporaryDirectory() as folder:
            night, check = a_night(size, Path(folder))
            check(), night()  # the first ones fill caches
            return measured(
                "scaling", axis, night, repeats=repeats, size=size, peer="check", theirs=check
            )
    grown = axis.removeprefix("deciding ")
    cells = {"cells": 20} if grown == "columns" else {}
    threshold = None if grown == axis else 0.05
    of = {**USUAL, **cells, grown: size}
    check = a_check(**of, threshold=threshold)
    check()  # the first one fills caches
    row = measured(
        "scaling", axis, check, repeats=repeats, size=size, peer="counting alone",
        theirs=counting(**of),
    )  # fmt: skip
    return replace(row, megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def a_check(
    clients: int, records: int, cells: int, columns: int, *, threshold: float | None
) -> Timed:
    """Build a federation, and return what runs a check over it, which decides if it can."""
    grid, reference = a_federation(clients, records, cells, columns)
    trust = Trusted(epsilon=1.0, delta=1e-6)
    monitor = KLDrift(reference, trust, population=HostedClients(), threshold=threshold)
    return cpu(lambda: monitor.check(grid))


def counting(clients: int, records: int, cells: int, columns: int) -> Timed:
    """Return what counts the symbols of as many records."""
    own = min(clients, _POOL)
    symbols = np.random.default_rng(0).integers(cells * columns, size=own * columns * records)
    return cpu(lambda: [np.bincount(symbols) for _ in range(clients // own)])


def a_night(clients: int, folder: Path) -> tuple[Timed, Timed]:
    """Return what runs a night, and a check, over the usual federation.

    In process, the memories of all clients are this machine's: 1,000 clients a file.
    """
    grid, reference = a_federation(**{**USUAL, "clients": clients})
    for node, context in grid.contexts.items():
        context.node_config["drift-memory"] = str(folder / str(node))
    trust = Trusted(epsilon=1.0, delta=1e-6)

    def timed(trust: Trust) -> Timed:
        monitor = KLDrift(reference, trust, population=HostedClients())
        return cpu(lambda: monitor.check(grid))

    return timed(Standing(trust, book=folder / "standing.db")), timed(trust)


def a_federation(
    clients: int, records: int, cells: int, columns: int
) -> tuple[InProcessGrid, Reference]:
    """Build nodes of clients, and a reference for them."""
    random = np.random.default_rng(0)
    domain: Domain = Binned.uniform(0, 1, cells)
    if columns > 1:
        domain = Table({f"c{i}": Binned.uniform(0, 1, cells) for i in range(columns)})
    values = random.random((_POOL, columns, records))
    hosts = -(-clients // _HOSTED)
    app = ClientApp()

    def held(_: Context, member: int) -> object:
        own = values[member % _POOL]
        return own[0] if columns == 1 else {f"c{i}": column for i, column in enumerate(own)}

    def hosted(context: Context) -> range:
        return range(int(context.node_config["partition-id"]), clients, hosts)

    host_drift_queries(
        app, held, hosted, lambda _: domain, record_ids=lambda *_: np.arange(records)
    )
    grid = InProcessGrid(app, hosts)
    return grid, Reference.from_samples(domain, held(grid.contexts[1000], 0), floor=0.1)
