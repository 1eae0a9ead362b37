"""Public rows that an app is made of: a file, or a query to a database."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from flwr_kld.cli.public_files import read_frame
from flwr_kld.cli.table_schema import read_schema
from flwr_kld.domain.frame import columns_of
from flwr_kld.domain.table import Table
from flwr_kld.reference import Reference

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
    bins: int = 20,
    labels: int = 20,
) -> Sample:
    """Read public rows, and choose a domain for each column."""
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
        if file.suffix not in (".csv", ".parquet", ".json"):
            raise ValueError(
                f"{place} is neither a .csv or .parquet file nor a database's URL "
                "(with --query), nor a Table Schema (.json): give public rows, or their schema"
            )
        if not file.is_file():
            raise ValueError(f"there is no file {place}: give public rows, .csv or .parquet")
        if file.suffix == ".json":
            return _of_schema(file, place, columns, identifier, bins)
        name, frame = place, read_frame(file)
    rows = columns_of(frame)
    for column in rows:
        if not isinstance(column, str) or not column.strip():
            raise ValueError(f"{name} has a column without a name: name it, and run init again")
    if identifier is not None:
        if identifier not in rows:
            raise ValueError(f"{name} has no column {identifier!r}: --id names one of its columns")
        columns = [column for column in columns or rows if column != identifier]
    try:
        table = Table.from_frame(rows, bins=bins, labels=labels, columns=columns)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; give more public rows, or other columns") from None
    return Sample(name, file, rows, Reference.from_frame(table, rows))


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
        engine = sa.create_engine(url, hide_parameters=True)
        with engine.connect() as connection:
            found = connection.exec_driver_sql(query)
            names, rows = list(found.keys()), found.fetchmany(_MOST)
    except ModuleNotFoundError as error:
        raise ValueError(f"{name} needs the driver {error.name}: pip install it") from None
    except SQLAlchemyError as error:
        why = " ".join(str(getattr(error, "orig", None) or error).split())
        raise ValueError(f"{name} does not answer the query: {why}") from None
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of the query have the same name: rename one ({names})")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
