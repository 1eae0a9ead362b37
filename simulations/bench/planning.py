"""How long the planner takes for one forecast, by cells, clients and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from measuring import Row, cpu, measured

from flwr_kld import Binned, Reference, Table
from flwr_kld.planner import Setting, forecast
from flwr_kld.strategies import Trusted

_TRUST = Trusted(epsilon=1.0, delta=1e-6)
_SIZES = {
    "cells": (100, 1_000, 10_000),
    "clients": (100, 10_000, 1_000_000),
    "columns": (2, 10, 50),
}


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Forecast deciding checks, in a process that has made each forecast before."""
    for axis, sizes in _SIZES.items():
        for size in sizes[:1] if quick else sizes:
            reference = a_reference(**{axis: size} if axis != "clients" else {})
            clients = size if axis == "clients" else 200
            once = forecasting(reference, clients)
            once()
            yield measured("planner", f"forecast, by {axis}", cpu(once), repeats=repeats, size=size)


def a_reference(cells: int = 1000, columns: int = 1) -> Reference:
    """Make a public law of one column, or of a table with 20 bins in each."""
    random = np.random.default_rng(0)
    if columns == 1:
        return Reference.from_counts(Binned.uniform(0, 1, cells), random.integers(1, 99, cells))
    table = Table({f"c{i}": Binned.uniform(0, 1, 20) for i in range(columns)})
    return Reference.from_counts(
        table, {f"c{i}": random.integers(1, 99, 20) for i in range(columns)}
    )


def forecasting(reference: Reference, clients: int) -> Callable[[], object]:
    """Return what makes one forecast."""
    trust = _TRUST.over(reference.domain.per_record)
    setting = Setting(clients=clients, records=100, trust=trust)
    return lambda: forecast(reference, setting)
