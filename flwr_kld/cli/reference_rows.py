"""How many records of a reference its thresholds need, and whether it has them."""

from __future__ import annotations

from collections.abc import Mapping

from flwr_kld.domain.table import Table
from flwr_kld.inference.allowance import rows_needed
from flwr_kld.reference import Reference

DEFAULT_THRESHOLD = 0.1
"""Nats that are tolerated where nothing is said."""
_NAMED = 5
"""Columns that a sentence names."""


def rows_of_columns(reference: Reference, threshold: float | None = None) -> dict[str, int]:
    """Return about how many records the threshold of each column that has one needs, most first."""
    from flwr_kld.check.decider import Alarm  # imported here: it takes a while

    alarm, domain = Alarm(), reference.domain
    usual = DEFAULT_THRESHOLD if threshold is None else threshold
    own = domain.thresholds if isinstance(domain, Table) else {}
    needed = {
        name: rows_needed(
            column, own.get(name, usual), alarm.resolution, theta=0.01, level=alarm.level
        )
        for name, column in reference.columns.items()
    }
    return most_first(needed)


def most_first(needed: Mapping[str, int | None]) -> dict[str, int]:
    """Sort columns by what they need, and leave out those of which nothing is known."""
    known = [(name, rows) for name, rows in needed.items() if rows is not None]
    return dict(sorted(known, key=lambda one: -one[1]))


def short_of(reference: Reference, needed: Mapping[str, int]) -> dict[str, int]:
    """Return those columns that need more than their reference has."""
    return {name: rows for name, rows in needed.items() if rows > (reference.records or rows)}


def in_words(reference: Reference, needed: Mapping[str, int]) -> str:
    """Say what the thresholds need and whether it is there; needs one column or more."""
    has, table = f"{reference.records or 0:,.0f} records", reference.is_table
    short = short_of(reference, needed)
    if not short:
        name, rows = next(iter(needed.items()))
        told = f"{name} needs most, about" if table else "it needs about"
        thresholds = "the thresholds of all columns" if table else "the threshold"
        return f"its {has} are enough for {thresholds}: {told} {rows:,}"
    if not table:
        (rows,) = short.values()
        return f"its {has} are too few for the threshold, which needs about {rows:,}"
    told = ", ".join(f"{name} needs about {rows:,}" for name, rows in list(short.items())[:_NAMED])
    more = f" and {len(short) - _NAMED} more need fewer" if len(short) > _NAMED else ""
    return (
        f"its {has} are too few for the thresholds of {len(short)} of {len(reference.columns)} "
        f"columns: {told}{more}"
    )
