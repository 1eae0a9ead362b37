"""Reads the public rows that an app is made of, or makes some up from a data dictionary."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.ask.period import Period
from flwr_kld.cli.common import print_note
from flwr_kld.reference import Reference
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.files import require_database, rows_in
from flwr_kld.table.frame import TextFile, columns_of, texts_in
from flwr_kld.table.labels import Labels
from flwr_kld.table.sniff import in_words, sniff
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times, times_in

_ROWS = 1000


def read_rows(file: Path, known: Table | None = None) -> Any:
    """Read public rows; say how text was taken to be written."""
    if url := re.match(r"([\w+]{2,}):/(?!/)", str(file)):  # of which a path keeps one slash
        require_database(f"{url[1]}://{str(file)[url.end() :]}")
        raise ValueError(
            "the rows of a database are read in Python, Reference.from_file(url, query=…), whose "
            "save() writes a reference; here, give a file"
        )
    rows = rows_in(file, dialect=None if known is None else known.dialect, public=True)
    if known is not None or not isinstance(rows, TextFile):
        return rows
    dialect = sniff(file)
    print_dialect(str(file), dialect)
    return rows.read_by(dialect)


def print_dialect(place: str, dialect: Dialect) -> None:
    """Say what was recognised of how public rows are written."""
    if words := ", ".join(in_words(dialect)):
        print_note(f"{place} is read with {words}")


@dataclass(frozen=True)
class Sample:
    """Public rows, and the reference that they give."""

    place: Path  # Where they are from
    file: Path | None  # Their file; None if they are made up
    rows: Mapping[str, Any]  # Columns by name
    reference: Reference  # Over a table of the columns that serve

    @property
    def made_up(self) -> bool:
        """Whether nothing but a dictionary was there: the rows are even over what it lists."""
        return self.file is None

    @property
    def table(self) -> Table:
        """Domain of each column."""
        domain = self.reference.domain
        if not isinstance(domain, Table):
            raise TypeError("a sample gives a table")
        return domain

    def tolerating(self, nats: float) -> Sample:
        """Return it with a threshold for each column that has none."""
        table = self.table
        thresholds = {**dict.fromkeys(table.columns, nats), **table.thresholds}
        known = replace(self.reference, domain=replace(table, thresholds=thresholds))
        return replace(self, reference=known)

    def period(self, column: str) -> Period:
        """Return the period of the public rows by their dates or times in a column."""
        written = self.table.dialect.plain(texts_in(self.rows[column]), column, "time")
        days = times_in(written).astype("M8[D]")
        days = days[~np.isnat(days)]
        if not len(days):
            raise ValueError(
                f"{self.place} has no dates in {column!r}: --period names a column of them"
            )
        return Period(column, str(days.min()), str(days.max() + np.timedelta64(1, "D")))

    def save_rows(self, file: Path) -> None:
        """Write the rows as CSV, for simulated nodes."""
        with file.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.writer(lines)
            writer.writerow(self.rows)
            writer.writerows(zip(*self.rows.values(), strict=True))


def read_sample(
    place: Path,
    *,
    columns: Sequence[str] | None = None,
    identifier: str | None = None,
    period: str | None = None,
    bins: int = 20,
    labels: int = 20,
    known: Table | None = None,
    allow_unlisted: bool = False,
) -> Sample:
    """Read public rows, and choose a domain for each column, unless the table is known."""
    if place.suffix == ".toml":
        if identifier or known:
            raise ValueError("--id and --table go with public rows: edit the dictionary")
        return made_up(place, Table.from_toml(place))
    frame, file = read_rows(place, known), place.absolute()
    rows = columns_of(frame)  # a text file is one itself
    for column in rows:
        if not isinstance(column, str) or not column.strip():
            raise ValueError(f"{place} has a column without a name: name it, and run init again")
    for option, given in (("--id", identifier), ("--period", period)):
        if given is not None and given not in rows:
            raise ValueError(f"{place} has no column {given!r}: {option} names one of its columns")
    if known is not None:
        try:
            counted = Reference.from_frame(known, rows, allow_unlisted=allow_unlisted)
            return Sample(place, file, rows, counted)
        except ValueError as error:
            raise ValueError(f"{place} does not fit the table: {error}") from None
    held = {column: rows[column] for column in rows if column != identifier}
    dialect = rows.dialect if isinstance(rows, TextFile) else None
    try:
        table = Table.from_frame(held, bins=bins, labels=labels, columns=columns, dialect=dialect)
    except ValueError as error:
        raise ValueError(f"{place}: {error}; give more public rows, or other columns") from None
    if period is not None:
        table = _of_period(table, period)
    if not isinstance(rows, TextFile):  # which was recognised when it was read
        print_dialect(str(place), table.dialect)
    counted = Reference.from_frame(table, rows, allow_unlisted=allow_unlisted)
    return Sample(place, file, rows, counted)


def _of_period(table: Table, column: str) -> Table:
    """Leave out what the rows of some days have in common: their date, month and weekday."""
    days = [
        name
        for name, domain in table.columns.items()
        if table.sources[name] == column and isinstance(domain, Times) and domain.by != "hour"
    ]
    why = "the period of a check, which is of some days alone"
    features = {name: domain for name, domain in table.features.items() if name not in days}
    return replace(
        table,
        features=features,
        sources={name: table.sources[name] for name in features},
        read_as={name: words for name, words in table.read_as.items() if name in features},
        left_out={**table.left_out, **dict.fromkeys(days, why)},
    )


def made_up(place: Path, table: Table) -> Sample:
    """Make rows up, the same for each table: they show that checks run, nothing about anybody."""
    rng = np.random.default_rng(0)  # an order of made-up rows
    rows: dict[str, list[Any]] = {}
    for name in table.features:
        values = _values_of(table.columns[name])
        mixed = [values[i % len(values)] for i in rng.permutation(_ROWS).tolist()]
        rows.setdefault(table.sources[name], mixed)
    return Sample(place, None, rows, Reference.from_frame(table, rows, allow_unlisted=True))


def _values_of(domain: Domain) -> list[Any]:
    """Return a value of each bin or label, 'other' and 'missing' left out, if they are known."""
    if isinstance(domain, Labels):
        return list(domain.names)
    if isinstance(domain, Times):
        if not isinstance(domain.by, str):
            return [str(np.datetime64(domain.by[0], "us") - np.timedelta64(1, "us")), *domain.by]
        # Even in months, weekdays and hours alike: a column of dates has features of several.
        return [datetime(2024, i % 12 + 1, i // 12 % 7 + 1, i % 24).isoformat() for i in range(168)]
    if isinstance(domain, Binned):
        return [domain.edges[0] - 1, *domain.edges]  # an edge is in the bin above it
    return [None]
