"""Drifts of how columns go together, on real flights: the columns, all their pairs, or a score.

    python simulations/studies/joint_drift.py [--runs 40] [--workers 2] [--out DIR]

336,776 real flights, eleven columns (`simulations.flights`). A random half of them is public; a
check is of 20,000 of the other half on 20 nodes, at ε = 1 and δ = 10⁻⁶, through the product's own
messages. In some of the rows the destinations, or the hours of departure, are dealt anew among
these rows: every column stays as it is. A run is the first check of a monitor with the
default alarm. Noise is not seeded. Writes ``joint_drift.csv`` and ``joint_drift.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld.clients import answer_drift_queries
from flwr_kld.reference import Reference
from flwr_kld.simulations.flights import NAMES, NUMBERS, Flights
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.studies.runner import Row, in_processes, parser_of, save, show
from flwr_kld.strategies import KLDrift, Trusted

EPSILON, DELTA, THRESHOLD = 1.0, 1e-6, 0.001
ROWS, NODES = 20_000, 20
DESIGNS = {"columns": 1, "columns and 55 pairs": 10, "columns and a score": 1}
"""Runs of which one is made: checks of 66 columns take long."""
UNDRIFTED = 5
"""Checks without a drift for each one with."""
DRIFTS = (("none", 0.0), ("dest", 0.05), ("dest", 0.1), ("sched_dep_time", 0.05))
"""Column that is dealt anew, and in which part of the rows."""

Frame = dict[str, NDArray[Any]]


@lru_cache(maxsize=1)
def halves() -> tuple[Frame, Frame]:
    """Return the public rows, and those that clients have."""
    columns = Flights.load().columns
    order = np.random.default_rng(0).permutation(len(columns["dest"]))
    first, second = np.array_split(order, 2)
    return (
        {name: column[first] for name, column in columns.items()},
        {name: column[second] for name, column in columns.items()},
    )


@lru_cache(maxsize=3)
def reference_of(design: str) -> Reference:
    """Return the public rows' law, over the columns of a design."""
    table, (public, _) = Flights.load().table, halves()
    if design == "columns and 55 pairs":
        table = replace(table, interactions=tuple(combinations((*NUMBERS, *NAMES), 2)))
    score = "dependence" if design == "columns and a score" else None
    return Reference.from_frame(table, public, score=score)


def check(item: tuple[str, str, float, int]) -> Row:
    """Run one check."""
    design, column, part, run = item
    rng = np.random.default_rng([run, int(part * 100), len(column)])
    private = halves()[1]
    drawn = rng.choice(len(private["dest"]), ROWS, replace=False)
    rows = {name: values[drawn] for name, values in private.items()}
    if part:
        some = np.flatnonzero(rng.random(ROWS) < part)
        rows[column][some] = rng.permutation(rows[column][some])
    reference = reference_of(design)

    def own(context: Context) -> Frame:
        node = int(str(context.node_config["partition-id"]))
        return {name: values[node::NODES] for name, values in rows.items()}

    app = ClientApp()
    answer_drift_queries(app, own, reference.domain)
    monitor = KLDrift(reference, Trusted(EPSILON, DELTA), threshold=THRESHOLD)
    report = monitor.check(InProcessGrid(app, NODES))
    found = [name for name, one in report.columns.items() if one.drifted]
    return {
        "design": design, "drift": column, "part": part, "run": run, "found": bool(found),
        "columns": ", ".join(found), "seconds": report.cost.seconds,
    }  # fmt: skip


def summary(rows: Sequence[Row]) -> list[Row]:
    """Say how often each design finds each drift."""
    settings = dict.fromkeys((row["design"], row["drift"], row["part"]) for row in rows)
    told = []
    for setting in settings:
        own = [row for row in rows if (row["design"], row["drift"], row["part"]) == setting]
        told.append({
            **dict(zip(("design", "drift", "part"), setting, strict=True)),
            "found": round(float(np.mean([row["found"] for row in own])), 3), "runs": len(own),
        })  # fmt: skip
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    chosen = parser_of(__doc__, out="joint_drift", runs=(40, "of each setting")).parse_args(
        arguments
    )
    items = [
        (design, column, part, run)
        for design, every in DESIGNS.items()
        for column, part in DRIFTS
        for run in range(0, chosen.runs * (1 if part else UNDRIFTED), every)
    ]
    rows = list(in_processes(check, items, chosen.workers, "checks"))
    told = summary(rows)
    show("checks that find a drift", told)
    save(rows, chosen.out, "joint_drift", {"found": told})


if __name__ == "__main__":
    main()
