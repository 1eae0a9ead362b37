"""How a check's CPU and memory grow: with clients, cells, columns and records, in this process.

ClientApp and ServerApp code as on a deployment, over Flower's messages; a node hosts a thousand
clients. Records are made before the clock starts; every size has a process of its own.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from measuring import Row, Timed, cpu, measured

from flwr_kld import Binned, Reference, Table
from flwr_kld.clients import host_drift_queries
from flwr_kld.domain.base import Domain
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import HostedClients, KLDrift, Trusted

_HOSTED = 1000
"""Clients of a node."""
_POOL = 256
"""Clients with records of their own; each other one has the same as one of these."""
USUAL = {"clients": 400, "records": 50, "cells": 1000, "columns": 1}
"""A check of which one number grows; tables have 20 cells a column."""
AXES = {
    "clients": (50, 1_000, 10_000, 100_000),
    "deciding clients": (50, 1_000, 10_000),
    "cells": (100, 1_000, 8_000, 65_536),
    "columns": (2, 20, 100, 380),
    "deciding columns": (50, 380),
    "records": (10, 100, 1_000, 10_000),
}


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Measure every size of every axis; of each the first two where it has to be quick."""
    for axis, sizes in AXES.items():
        for size in sizes[:2] if quick else sizes:
            yield in_a_process(axis, size, repeats)


def in_a_process(axis: str, size: int, repeats: int) -> Row:
    """Measure one size, in a process of its own, whose memory nothing else has filled."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(point, axis, size, repeats).result()


def point(axis: str, size: int, repeats: int) -> Row:
    """Measure one size in this process."""
    grown = axis.removeprefix("deciding ")
    cells = {"cells": 20} if grown == "columns" else {}
    threshold = None if grown == axis else 0.05
    check = a_check(**{**USUAL, **cells, grown: size}, threshold=threshold)
    check()  # the first one fills caches
    row = measured("scaling", axis, check, repeats=repeats, size=size)
    return replace(row, megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def a_check(
    clients: int, records: int, cells: int, columns: int, *, threshold: float | None
) -> Timed:
    """Build a federation, and return what runs a check over it, which decides if it can."""
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

    host_drift_queries(app, held, hosted, lambda _: domain)
    grid = InProcessGrid(app, hosts)
    monitor = KLDrift(
        Reference.from_samples(domain, held(grid._contexts[1000], 0), floor=0.1),
        Trusted(epsilon=1.0, delta=1e-6),
        population=HostedClients(),
        threshold=threshold,
    )
    return cpu(lambda: monitor.check(grid))
