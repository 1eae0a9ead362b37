"""Twelve monthly checks of every aircraft's flights: how near they are, and what they find.

    python simulations/studies/flights.py [--runs 3] [--workers 2] [--out DIR]

336,776 real flights, 4,043 aircraft as clients, eleven columns in one release, reference January
(`simulations.flights`). Settings: all clients estimate; with a threshold, half of them estimate and
the other half decides; ε = 0.3; and all 45 pairs of ten columns as interactions. Each check runs
through the product's own messages; noise is not seeded. Estimates of the cohort are held against
the exact D_θ of the very flights that were counted, those of the population against all flights of
the month. Writes ``flights.csv`` and ``flights.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.simulations.flights import MONTHS, NAMES, NUMBERS, Flights, monthly_checks
from flwr_kld.simulations.studies.runner import Row, in_processes, parser_of, save, show
from flwr_kld.strategies import Alarm, HostedClients, KLDrift, Trusted

DELTA, THRESHOLD, FAR = 1e-6, 0.05, 3
"""Nats tolerated in a column; a drift of so many times that is to be found at its first check."""
SETTINGS: dict[str, tuple[float, float | None, bool]] = {
    "all estimate, ε = 1": (1.0, None, False),
    "half decides, ε = 1": (1.0, THRESHOLD, False),
    "all estimate, ε = 0.3": (0.3, None, False),
    "45 pairs, ε = 1": (1.0, None, True),
}
"""Epsilon, threshold, and whether pairs are columns, too."""


@lru_cache(maxsize=1)
def flights(pairs: bool) -> Flights:
    """Load the flights once a process."""
    of = [name for name in (*NUMBERS, *NAMES) if name != "dest"]
    return Flights.load(tuple(combinations(of, 2)) if pairs else ())


def year(item: tuple[str, int]) -> list[Row]:
    """Run twelve checks; a row for each column of each month."""
    name, run = item
    epsilon, threshold, pairs = SETTINGS[name]
    data = flights(pairs)
    monitor = KLDrift(
        data.reference,
        Trusted(epsilon, DELTA),
        population=HostedClients(),
        threshold=threshold,
        alarm=None if threshold is None else Alarm(horizon=len(MONTHS)),
    )
    rows = []
    for month, report in monthly_checks(data, monitor):
        whole = data.truth(range(data.clients), month)
        counted = (participant.member for participant in monitor.counted)
        truth = data.truth(counted, month)
        for column, own in report.columns.items():
            population = own.reading.of_population
            rows.append({
                "setting": name, "run": run, "month": month, "column": column,
                "truth": truth[column], "estimate": own.reading.estimate,
                "stated": own.reading.deviation, "population_truth": whole[column],
                "population_estimate": population and population.value,
                "population_stated": population and population.deviation,
                "outcome": own.verdict and str(own.verdict.outcome),
                "seconds": report.cost.seconds,
            })  # fmt: skip
    return rows


def errors(rows: Sequence[Row], estimate: str, truth: str) -> NDArray[np.float64]:
    """Return estimate less truth in nats, shape [rows with an estimate]."""
    return np.array([row[estimate] - row[truth] for row in rows if row[estimate] is not None])


def accuracy(name: str, rows: Sequence[Row], estimate: str, truth: str) -> Row:
    """Summarise the errors of one kind of estimate in one setting, in nats."""
    kept = [row for row in rows if name != "45 pairs, ε = 1" or " × " in row["column"]]
    columns = sorted({row["column"] for row in kept})
    by_column = {
        column: _root(errors([r for r in kept if r["column"] == column], estimate, truth))
        for column in columns
    }
    worst = max(columns, key=by_column.__getitem__)
    all_errors = errors(kept, estimate, truth)
    january = errors([row for row in kept if row["month"] == 1], estimate, truth)
    return {
        "setting": name,
        "of": "population" if estimate.startswith("population") else "cohort",
        "rmse": _root(all_errors),
        "median": float(np.median(np.abs(all_errors))),
        "worst_column": worst,
        "worst": by_column[worst],
        "bias": float(all_errors.mean()),
        "january": float(january.mean()),
        "seconds": float(np.median([row["seconds"] for row in rows])),
    }


def decisions(rows: Sequence[Row]) -> list[Row]:
    """Count what was said of columns by how far they had drifted, over runs and months."""
    decided = [row for row in rows if row["outcome"]]
    bands = (
        ("at most the threshold", 0.0, THRESHOLD),
        (f"up to {FAR} times", THRESHOLD, FAR * THRESHOLD),
        (f"{FAR} times or more", FAR * THRESHOLD, np.inf),
    )
    told = []
    for band, low, high in bands:
        own = [row for row in decided if low <= max(row["population_truth"], 0) < high]
        said = {o: sum(r["outcome"] == o for r in own) for o in ("drift", "no drift")}
        told.append({
            "D of the month": band, "columns × months": len(own), **said,
            "inconclusive": len(own) - sum(said.values()),
        })  # fmt: skip
    return told


def _root(values: NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean()))


def main() -> None:
    """Run the study."""
    given = parser_of(__doc__, out="flights", runs=(3, "years in each setting")).parse_args()
    items = [(name, run) for name in SETTINGS for run in range(1, given.runs + 1)]
    rows = [r for found in in_processes(year, items, given.workers, "years") for r in found]
    kinds = (("estimate", "truth"), ("population_estimate", "population_truth"))
    near = [
        accuracy(name, [row for row in rows if row["setting"] == name], *kind)
        for name in SETTINGS
        for kind in kinds
    ]
    said = decisions(rows)
    show("errors in nats", near)
    show(f"decisions, {THRESHOLD} nats tolerated in each column", said)
    save(rows, given.out, "flights", {"accuracy": near, "decisions": said})


if __name__ == "__main__":
    main()
