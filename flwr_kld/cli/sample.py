"""Public rows that an app is made of: a file, a query to a database, or a schema and made-up rows.

A schema is a Table Schema as Frictionless Data defines it: ``fields`` with ``name``, ``type`` and
``constraints``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from flwr_kld.cli.public_files import read_frame, say_dialect
from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.database import read_rows
from flwr_kld.domain.dialect import is_text_file
from flwr_kld.domain.frame import TextFile, columns_of, texts_in
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.domain.times import Times, times_in
from flwr_kld.query.selection import Period
from flwr_kld.reference import Reference

_ROWS = 1000

_MONDAY = datetime(2024, 1, 1)


class _Constraints(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    minimum: float | str | None = None  # a date's is text
    maximum: float | str | None = None
    enum: list[str] | list[int] | None = Field(default=None, min_length=1)


class _Column(BaseModel):
    name: str = Field(min_length=1)
    type: str = "string"
    constraints: _Constraints = Field(default_factory=_Constraints)


class _Schema(BaseModel):
    fields: list[_Column] = Field(min_length=1)


def read_schema(file: Path, *, bins: int) -> tuple[Table, dict[str, list[Any]]]:
    """Choose a domain for each column that the schema describes, and make rows up.

    Numbers between a minimum and a maximum get bins of one width, other numbers powers of two;
    texts with an ``enum`` and truth values labels, dates the weekday, and times the hour. The rows
    are even over each column's bins or labels: they show that checks run, and nothing about
    anybody.
    """
    try:
        schema = _Schema.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{file} is not a Table Schema: {place}: {first['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{file} is not a Table Schema: {error}") from None
    names = [column.name for column in schema.fields]
    if len(set(names)) < len(names):
        raise ValueError(f"{file} names a column twice")
    chosen = {column.name: _domain_of(column, bins) for column in schema.fields}
    features = {name: found for name, found in chosen.items() if isinstance(found, Domain)}
    left_out = {name: found for name, found in chosen.items() if isinstance(found, str)}
    if not features:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(f"{file} describes no column that can be checked: {reasons}")
    rng = np.random.default_rng(0)  # an order of made-up rows
    rows = {}
    for name, domain in features.items():
        values = _values_of(domain)
        rows[name] = [values[i % len(values)] for i in rng.permutation(_ROWS).tolist()]
    return Table(features, left_out=left_out), rows


def _domain_of(column: _Column, bins: int) -> Domain | str:
    """Return a column's domain, or the reason why it has none."""
    allowed = column.constraints
    if allowed.enum is not None:
        return Labels(allowed.enum)
    if column.type == "boolean":
        return Labels(["False", "True"])
    if column.type in ("date", "datetime"):
        return Times("weekday" if column.type == "date" else "hour")
    if column.type not in ("number", "integer"):
        return f"its type {column.type!r} needs an enum of its values"
    low, high = allowed.minimum, allowed.maximum
    if isinstance(low, str) or isinstance(high, str):
        return "the minimum and maximum of a number are numbers"
    if low is None or high is None:
        return Binned.powers(low, high)
    if low >= high:
        return "a number needs a maximum above its minimum"
    inner = np.linspace(low, high, bins + 1)[1:-1]
    if column.type == "integer":  # between whole numbers, as each has a bin
        inner = np.unique(np.ceil(inner) - 0.5)
        inner = inner[inner > low]
    return Binned(inner.tolist())


def _values_of(domain: Domain) -> list[Any]:
    """Return a value of each bin or label, 'other' and 'missing' left out."""
    if isinstance(domain, Labels):
        return list(domain.names)
    if isinstance(domain, Times):
        day = timedelta(days=1) if domain.by == "weekday" else timedelta(hours=1)
        return [(_MONDAY + i * day).isoformat() for i in range(domain.size - 1)]
    edges = list(domain.edges) if isinstance(domain, Binned) else [0.0]
    return [edges[0] - 1, *edges]  # an edge is in the bin above it


_MOST = 1_000_000
"""Rows that are read of a query."""


@dataclass(frozen=True)
class Sample:
    """Public rows, and the reference that they give."""

    place: str  # Where they are from
    file: Path | None  # Their file; None if they come from a database
    rows: Mapping[str, Any]  # Columns by name
    reference: Reference  # Over a table of the columns that serve
    # Whether nothing but a schema was there: the rows are even over what it allows
    made_up: bool = False

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
        return Period(column, str(days.min()), str(days.max() + 1))

    def save_rows(self, file: Path) -> None:
        """Write the rows as CSV, for simulated nodes."""
        with file.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.writer(lines)
            writer.writerow(self.rows)
            writer.writerows(zip(*self.rows.values(), strict=True))


def read_sample(
    place: str,
    query: str | None,
    *,
    columns: Sequence[str] | None = None,
    identifier: str | None = None,
    period: str | None = None,
    bins: int = 20,
    labels: int = 20,
    known: Table | None = None,
) -> Sample:
    """Read public rows, and choose a domain for each column, unless the table is known."""
    if "://" in place:
        if query is None:
            raise ValueError(
                "a database needs --query, which selects the public rows: "
                "'SELECT * FROM visits LIMIT 10000'"
            )
        name, file, frame = _name_of(place), None, _of_database(place, query)
    else:
        if query is not None:
            raise ValueError("--query goes with a database's URL, such as sqlite:///public.db")
        file = Path(place).absolute()
        if file.suffix not in (".parquet", ".json") and not is_text_file(file):
            raise ValueError(
                f"{place} is neither a .csv or .parquet file nor a database's URL "
                "(with --query), nor a Table Schema (.json): give public rows, or their schema"
            )
        if not file.is_file():
            raise ValueError(f"there is no file {place}: give public rows, .csv or .parquet")
        if file.suffix == ".json" and known is None:
            return _of_schema(file, place, columns, identifier, bins)
        if file.suffix == ".json":
            raise ValueError("--table goes with public rows: a schema describes the columns itself")
        name, frame = place, read_frame(file, known)
    rows = columns_of(frame)  # a text file is one itself
    for column in rows:
        if not isinstance(column, str) or not column.strip():
            raise ValueError(f"{name} has a column without a name: name it, and run init again")
    for option, told in (("--id", identifier), ("--period", period)):
        if told is not None and told not in rows:
            raise ValueError(f"{name} has no column {told!r}: {option} names one of its columns")
    if known is not None:
        try:
            return Sample(name, file, rows, Reference.from_frame(known, rows))
        except ValueError as error:
            raise ValueError(f"{name} does not fit the table: {error}") from None
    held = {column: rows[column] for column in rows if column != identifier}
    dialect = rows.dialect if isinstance(rows, TextFile) else None
    try:
        table = Table.from_frame(held, bins=bins, labels=labels, columns=columns, dialect=dialect)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; give more public rows, or other columns") from None
    if period is not None:
        table = _of_period(table, period)
    if not isinstance(rows, TextFile):  # which was recognised when it was read
        say_dialect(name, table.dialect)
    return Sample(name, file, rows, Reference.from_frame(table, rows))


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
        left_out={**table.left_out, **dict.fromkeys(days, why)},
    )


def _of_schema(
    file: Path, place: str, columns: Sequence[str] | None, identifier: str | None, bins: int
) -> Sample:
    if columns or identifier:
        raise ValueError("--column and --id choose among rows: leave columns out of the schema")
    table, rows = read_schema(file, bins=bins)
    return Sample(place, None, rows, Reference.from_frame(table, rows), made_up=True)


def _name_of(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        raise ValueError("this is not a database URL: try sqlite:///public.db") from None


def _of_database(url: str, query: str) -> dict[str, list[Any]]:
    name = _name_of(url)
    try:
        return read_rows(url, query, most=_MOST)
    except SQLAlchemyError as error:
        why = " ".join(str(getattr(error, "orig", None) or error).split())
        raise ValueError(f"{name} does not answer the query: {why}") from None
