"""What a federation's data look like: how near each number is, and how often its interval holds.

    python simulations/studies/describe.py [--runs 200] [--workers 2] [--out DIR]

All flights of 2013 (`simulations.flights`): 4,043 aircraft are the clients, of 1 to 575 flights
each; eleven columns in one release at ε = 1. The table is made of January's flights, which are
public, with 20 or 100 bins at most. All aircraft are asked, and numbers are held against the exact
ones of all flights: raw values, whatever bin they are in. Or 1,000 aircraft are drawn, and numbers
are held against those of the population that they were drawn from. Each run goes through the
product's own messages; noise is not seeded. Errors: of a mean and a standard deviation in exact
standard deviations, of a decile in rank, of others in fractions of the records; the largest of all
runs. Writes ``describe.csv`` and ``describe.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld.clients import host_drift_queries
from flwr_kld.infer.figures.statistics import ColumnStatistics
from flwr_kld.simulations.flights import NODES, Flights
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.studies.runner import Row, in_processes, parser_of, save, show
from flwr_kld.strategies import HostedClients, Statistics, Trusted, UniformCohort
from flwr_kld.table.table import Table

EPSILON, MOST = 1.0, 1000
"""Flights of an aircraft in a year, at most: a public number."""
SETTINGS: dict[str, tuple[int, int | None]] = {
    "all aircraft, 20 bins": (20, None),
    "all aircraft, 100 bins": (100, None),
    "1,000 drawn, 100 bins": (100, 1000),
}
"""Bins of a column of numbers, and how many aircraft are drawn."""
Told = tuple[str, str, float, bool]
"""Column, statistic, error, and whether the interval holds."""


@lru_cache(maxsize=1)
def year() -> tuple[Flights, list[dict[str, NDArray[Any]]]]:
    """Load the flights once a process: all of them, and those of each aircraft."""
    flights = Flights.load()
    order = np.argsort(flights.aircraft, kind="stable")
    ends = np.searchsorted(flights.aircraft[order], np.arange(1, flights.clients))
    split = {name: np.split(of[order], ends) for name, of in flights.columns.items()}
    return flights, [{name: own[n] for name, own in split.items()} for n in range(flights.clients)]


def asked(item: tuple[str, int]) -> list[Told]:
    """Ask once."""
    bins, drawn = SETTINGS[item[0]]
    flights, own = year()
    table = Table.from_frame(flights.of(None, 1), bins=bins)
    app = ClientApp()
    host_drift_queries(
        app,
        records=lambda _, aircraft: own[aircraft],
        hosted=lambda node: range(int(node.node_config["partition-id"]), len(own), NODES),
        domain=lambda _: table,
    )
    statistics = Statistics(
        table,
        Trusted(EPSILON, 1e-6),
        cohort=UniformCohort(drawn),
        population=HostedClients(),
        most_records=MOST,
    )
    report = statistics.ask(InProcessGrid(app, NODES))
    symbols = table.encode(flights.columns)
    return [
        (name, *told)
        for place, (name, column) in enumerate(report.columns.items())
        for told in errors(
            column.statistics,
            flights.columns[name],
            np.bincount(symbols[:, place] - table.parts[place].start, minlength=table.sizes[place]),
            counted=drawn is None,
        )
    ]


def errors(
    found: ColumnStatistics, values: NDArray[Any], counts: NDArray[np.int64], *, counted: bool
) -> Iterator[tuple[str, float, bool]]:
    """Hold what was told of a column against all flights: statistic, error, if it holds."""
    total, listed = len(values), len(found.histogram)
    if counted:
        own = found.count
        yield (
            "count",
            abs(own.value - counts[:listed].sum()) / total,
            held(own, counts[:listed].sum()),
        )
    for place, one in enumerate(found.unlisted):
        share = counts[listed + place] / total
        yield "unlisted", abs(one.value - share), held(one, share)
    off = [abs(one.value - n / total) for one, n in zip(found.histogram, counts, strict=False)]
    inside = [held(one, n / total) for one, n in zip(found.histogram, counts, strict=False)]
    yield "histogram", max(off), all(inside)
    if found.numbers is None:
        return
    present = np.sort(values[~np.isnan(values)])
    sd = float(present.std())
    for name, figure, truth in (
        ("mean", found.numbers.mean, float(present.mean())),
        ("standard deviation", found.numbers.deviation, sd),
    ):
        yield name, abs(figure.value - truth) / sd, held(figure, truth)
    for quantile in found.numbers.quantiles:
        first = np.searchsorted(present, quantile.value, "left") / len(present)
        last = np.searchsorted(present, quantile.value, "right") / len(present)
        rank = max(first - quantile.level, quantile.level - last, 0.0)
        truth = present[int(np.ceil(quantile.level * len(present))) - 1]
        yield f"{quantile.level:.0%}", rank, held(quantile, truth)


def held(figure: Any, truth: float) -> bool:
    """Whether an interval holds, up to rounding."""
    return bool(figure.low - 1e-9 <= truth <= figure.high + 1e-9)


def summary(setting: str, runs: list[list[Told]]) -> Iterator[Row]:
    """Yield a row for each column's statistic: its largest error, and how often it was held."""
    of: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for told in runs:
        for column, name, error, inside in told:
            of.setdefault((column, name), []).append((error, inside))
    for (column, name), found in of.items():
        off, inside = np.array(found).T
        yield {
            "setting": setting, "column": column, "statistic": name,
            "largest_error": float(off.max()), "covered": float(inside.mean()),
        }  # fmt: skip


def worst(rows: list[Row]) -> list[Row]:
    """Return the worst column of each statistic in each setting; deciles are one."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        name = "deciles" if row["statistic"].endswith("%") else row["statistic"]
        kept = found.setdefault((row["setting"], name), {
            "setting": row["setting"], "statistic": name, "largest_error": 0.0, "of": "",
            "covered_at_least": 1.0, "of_": "",
        })  # fmt: skip
        if row["largest_error"] > kept["largest_error"]:
            kept |= {"largest_error": row["largest_error"], "of": row["column"]}
        if row["covered"] < kept["covered_at_least"]:
            kept |= {"covered_at_least": row["covered"], "of_": row["column"]}
    return list(found.values())


def main() -> None:
    """Run the study."""
    given = parser_of(__doc__, out="describe", runs=(200, "questions in each setting")).parse_args()
    items = [(name, run) for name in SETTINGS for run in range(given.runs)]
    of_setting: Mapping[str, list[list[Told]]] = {name: [] for name in SETTINGS}
    found = in_processes(asked, items, given.workers, "questions")
    for (name, _), told in zip(items, found, strict=True):
        of_setting[name].append(told)
    rows = [row for name, runs in of_setting.items() for row in summary(name, runs)]
    summed_up = worst(rows)
    show("The largest error and the least coverage of any column", summed_up)
    save(rows, given.out, "describe", {"runs": given.runs, "worst": summed_up})


if __name__ == "__main__":
    main()
