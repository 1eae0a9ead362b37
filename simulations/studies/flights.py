"""Twelve monthly checks of every aircraft's flights, beside tests and monitors that see all rows.

    python simulations/studies/flights.py [--runs 3] [--splits 60] [--workers 2] [--out DIR]

336,776 real flights, 4,043 aircraft as clients, eleven columns in one release, reference January
(`simulations.flights`). Each check runs through the product's own messages; noise is not seeded.

- Errors: the estimates of 3 settings (ε = 1 and ε = 0.3 with a threshold, and all 45 pairs of ten
  columns), against the exact D_θ of the very flights that were counted.
- A year: what each rule says of eleven columns in eleven months, by the exact D_θ of the month.
- No drift: January's aircraft, split at random; one half is the reference. Whatever a rule flags
  there is a false alarm.

The rules that see all rows: Kolmogorov–Smirnov or χ² at 5 % and .1 % a column, the population
stability index in ten bins with its usual limits, and Evidently's drift preset as it comes
(``pip install '.[bench]'``). Writes ``flights.csv`` and ``flights.json``.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, ks_2samp

from flwr_kld.common.extras import require
from flwr_kld.reference import Reference
from flwr_kld.simulations.flights import MONTHS, NAMES, NUMBERS, Flights, monthly_checks
from flwr_kld.simulations.studies.runner import Row, in_processes, parser_of, save, show
from flwr_kld.strategies import Alarm, HostedClients, KLDrift, Trusted

DELTA, THRESHOLD = 1e-6, 0.05
"""Of a check, and the nats tolerated in a column."""
BANDS = (0.0, 0.01, THRESHOLD, 2 * THRESHOLD, np.inf)
"""Exact D of a column in a month, in nats, between which the rules are compared."""
PAIRS = "45 pairs, ε = 1"
SETTINGS: dict[str, tuple[float, float | None]] = {
    "ε = 1": (1.0, THRESHOLD),
    "ε = 0.3": (0.3, THRESHOLD),
    PAIRS: (1.0, None),
}
"""Epsilon and threshold."""
OURS = "flwr-kld, ε = 1"

Columns = Mapping[str, NDArray[Any]]


@lru_cache(maxsize=1)
def flights(pairs: bool = False) -> Flights:
    """Load the flights once a process."""
    of = [name for name in (*NUMBERS, *NAMES) if name != "dest"]
    return Flights.load(tuple(combinations(of, 2)) if pairs else ())


def monitor(
    reference: Reference, epsilon: float = 1.0, threshold: float | None = THRESHOLD
) -> KLDrift:
    """Return a monitor whose rate of false alarms is that of a year of monthly checks."""
    return KLDrift(
        reference,
        Trusted(epsilon, DELTA),
        population=HostedClients(),
        threshold=threshold,
        alarm=None if threshold is None else Alarm(horizon=len(MONTHS)),
    )


def year(item: tuple[str, int]) -> list[Row]:
    """Run twelve checks; a row for each column of each month."""
    name, run = item
    data = flights(name == PAIRS)
    checked = monitor(data.reference, *SETTINGS[name])
    rows = []
    for month, report in monthly_checks(data, checked):
        whole = data.truth(range(data.clients), month)
        truth = data.truth((participant.member for participant in checked.counted), month)
        for column, own in report.columns.items():
            rows.append({
                "setting": name, "run": run, "month": month, "column": column,
                "truth": truth[column], "estimate": own.reading.estimate,
                "stated": own.reading.deviation, "of_month": whole[column],
                "flagged": own.verdict is not None and str(own.verdict.outcome) == "drift",
                "seconds": report.cost.seconds,
            })  # fmt: skip
    return rows


def cell_counts(
    before: NDArray[Any], after: NDArray[Any], named: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count rows by label, or in ten bins at the reference's deciles, the last with what is NaN."""
    cells = np.unique(
        np.concatenate([before, after])
        if named
        else np.nanquantile(before, np.linspace(0, 1, 11)[1:-1])
    )
    found = (
        np.searchsorted(cells, part, side="left" if named else "right") for part in (before, after)
    )
    first, second = (np.bincount(cell, minlength=len(cells) + (not named)) for cell in found)
    return first, second


def stability_index(before: NDArray[Any], after: NDArray[Any], named: bool) -> float:
    """Return the population stability index."""
    p, q = (np.maximum(n / n.sum(), 1e-4) for n in cell_counts(before, after, named))
    return float(((q - p) * np.log(q / p)).sum())


def p_value(before: NDArray[Any], after: NDArray[Any], named: bool) -> float:
    """Return the p-value of a χ² test of labels, or of a Kolmogorov–Smirnov test of numbers."""
    if named:
        return float(chi2_contingency(np.array(cell_counts(before, after, named)))[1])
    return float(ks_2samp(_known(before), _known(after), method="asymp")[1])


def _known(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return column[~np.isnan(column)]


def evidently(before: Columns, after: Columns) -> dict[str, bool]:
    """Return which columns Evidently's drift preset flags."""
    pandas, peer = require("pandas", extra="flights"), require("evidently", extra="bench")
    preset = require("evidently.presets", extra="bench").DataDriftPreset
    names = [name for name in before if name in NAMES]
    kinds = peer.DataDefinition(
        numerical_columns=[name for name in before if name not in names], categorical_columns=names
    )
    of_before, of_after = (
        peer.Dataset.from_pandas(pandas.DataFrame(dict(own)), data_definition=kinds)
        for own in (before, after)
    )
    with warnings.catch_warnings(action="ignore"):
        found = peer.Report([preset()], include_tests=True).run(of_after, of_before).dict()
    return {
        test["metric_config"]["params"]["column"]: test["status"] == "FAIL"
        for test in found["tests"]
        if test["metric_config"]["params"].get("column") in before
    }


def flags(before: Columns, after: Columns) -> dict[str, dict[str, bool]]:
    """Return, for each rule that sees all rows, which columns it flags."""
    tested = {n: p_value(before[n], after[n], n in NAMES) for n in before}
    indices = {n: stability_index(before[n], after[n], n in NAMES) for n in before}
    return {
        "KS or χ², p < .05": {n: p < 0.05 for n, p in tested.items()},
        "KS or χ², p < .001": {n: p < 0.001 for n, p in tested.items()},
        "stability index > .1": {n: s > 0.1 for n, s in indices.items()},
        "stability index > .2": {n: s > 0.2 for n, s in indices.items()},
        "Evidently's drift preset": evidently(before, after),
    }


def of_month(month: int) -> list[Row]:
    """Say what the rules that see all rows say of a month; a row for each rule and column."""
    data = flights()
    truth = data.truth(range(data.clients), month)
    found = flags(data.of(None, 1), data.of(None, month))
    return [
        {"rule": rule, "of_month": truth[column], "flagged": flagged}
        for rule, columns in found.items()
        for column, flagged in columns.items()
    ]


def of_split(seed: int) -> dict[str, bool]:
    """Split January's aircraft in two; return the rules that flag any column."""
    data = flights()
    aircraft, rows = data.aircraft[data.month == 1], data.of(None, 1)
    others = np.random.default_rng(seed).permutation(np.unique(aircraft))[::2].tolist()
    asked = np.isin(aircraft, others)
    before, after = ({n: c[part] for n, c in rows.items()} for part in (~asked, asked))
    reference = Reference.from_samples(data.table, before)
    report = next(monthly_checks(data, monitor(reference), others))[1]
    ours = any(
        str(own.verdict.outcome) == "drift" for own in report.columns.values() if own.verdict
    )
    return {OURS: ours} | {rule: any(by.values()) for rule, by in flags(before, after).items()}


def accuracy(name: str, rows: Sequence[Row]) -> Row:
    """Summarise the errors of a setting's estimates, in nats."""
    kept = [row for row in rows if name != PAIRS or " × " in row["column"]]
    errors = np.array([row["estimate"] - row["truth"] for row in kept])
    columns = np.array([row["column"] for row in kept])
    by_column = {str(c): _root(errors[columns == c]) for c in np.unique(columns)}
    worst = max(by_column, key=by_column.__getitem__)
    return {
        "setting": name,
        "rmse": _root(errors),
        "median": float(np.median(np.abs(errors))),
        "worst_column": worst,
        "worst": by_column[worst],
        "bias": float(errors.mean()),
        "seconds": float(np.median([row["seconds"] for row in rows])),
    }


def compared(rows: Sequence[Row], splits: Sequence[Mapping[str, bool]]) -> list[Row]:
    """Count what each rule flags: in the year by exact D, and where nothing has moved."""
    told = []
    for rule in splits[0]:
        own = [row for row in rows if row["rule"] == rule]
        bands = {
            f"D {low:g} to {high:g}": "{} of {}".format(
                sum(row["flagged"] for row in own if low <= max(row["of_month"], 0) < high),
                sum(low <= max(row["of_month"], 0) < high for row in own),
            )
            for low, high in pairwise(BANDS)
        }
        alarms = f"{sum(split[rule] for split in splits)} of {len(splits)}"
        told.append({"rule": rule, **bands, "splits with an alarm": alarms})
    return told


def _root(values: NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean()))


def main() -> None:
    """Run the study."""
    given = parser_of(
        __doc__, out="flights", runs=(3, "years in each setting"), splits=(60, "splits of January")
    ).parse_args()
    logging.disable(logging.WARNING)
    require("evidently", extra="bench")

    def years(names: Iterable[str]) -> list[Row]:
        items = [(name, run) for name in names for run in range(1, given.runs + 1)]
        return [r for found in in_processes(year, items, given.workers, "years") for r in found]

    first, *others = SETTINGS
    rows = years([first])
    months = in_processes(of_month, MONTHS[1:], given.workers, "rules that see all rows")
    ours = [{"rule": OURS, **row} for row in rows if row["month"] > 1]
    seen = [*ours, *(row for found in months for row in found)]
    splits = in_processes(of_split, range(given.splits), given.workers, "splits of January")
    said = compared(seen, [*splits])
    show("columns flagged", said)
    rows += years(others)
    near = [accuracy(name, [row for row in rows if row["setting"] == name]) for name in SETTINGS]
    show("errors in nats", near)
    save(rows, given.out, "flights", {"accuracy": near, "columns flagged": said})


if __name__ == "__main__":
    main()
