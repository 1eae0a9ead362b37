"""README's year of flights, beside rules that see all rows: what they flag, and CPU seconds.

Eleven monthly checks of eleven columns at ε = 1. The last peer is counting each column's rows
alone, which is all that a check at a trusted server has to do. `studies/flights.py` has more: how
often each rule flags January's aircraft split at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from measuring import Row, cpu, numpy_seconds, x25519_seconds

from flwr_kld.simulations.flights import MONTHS, NAMES, Flights, monthly_checks
from flwr_kld.simulations.studies.flights import (
    THRESHOLD,
    Columns,
    evidently,
    monitor,
    p_value,
    stability_index,
)

Rule = Callable[[Columns, Columns], Mapping[str, bool]]
Flagged = set[tuple[int, str]]
"""Months and columns."""
RULES: dict[str, Rule] = {
    "KS or χ², p < .001": lambda a, b: {n: p_value(a[n], b[n], n in NAMES) < 0.001 for n in a},
    "stability index > .1": lambda a, b: {
        n: stability_index(a[n], b[n], n in NAMES) > 0.1 for n in a
    },
    "Evidently's drift preset": evidently,
}


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Run a year of checks, and each rule on the same flights, once; two months if quick."""
    data = Flights.load()
    months = MONTHS[1:3] if quick else MONTHS[1:]
    before, after = data.of(None, 1), {month: data.of(None, month) for month in months}
    moved = {
        (month, column)
        for month in months
        for column, d in data.truth(range(data.clients), month).items()
        if d > 2 * THRESHOLD
    }
    below = len(months) * len(before) - len(moved)

    def said(rule: str, found: Flagged) -> str:
        return f"{rule}: {len(found & moved)} of {len(moved)}, {len(found - moved)} of {below}"

    def run(rule: Rule) -> Flagged:
        return {(m, n) for m in months for n, flag in rule(before, after[m]).items() if flag}

    def count() -> None:
        symbols = [data.table.encode(after[month]) for month in months]
        for of_month in symbols:
            np.bincount(of_month.ravel(), minlength=data.table.size)

    flagged: Flagged = set()

    def checks() -> None:
        for month, report in monthly_checks(data, monitor(data.reference)):
            if month in months:
                flagged.update(
                    (month, name)
                    for name, own in report.columns.items()
                    if own.verdict is not None and str(own.verdict.outcome) == "drift"
                )

    ours = cpu(checks)() * len(months) / len(MONTHS)
    what = "year of flights; columns flagged of those above .1 nats, and of others: "
    what += said("ε = 1", flagged)
    yardsticks = x25519_seconds(), numpy_seconds()
    for name, rule in RULES.items():
        found: Flagged = set()
        spent = cpu(lambda rule=rule, found=found: found.update(run(rule)))()
        yield Row("year", what, ours, *yardsticks, peer=said(name, found), peer_seconds=spent)
    yield Row("year", what, ours, *yardsticks, peer="counting alone", peer_seconds=cpu(count)())
