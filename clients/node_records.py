"""A node's records from where its operator says they are: a file, or a database."""

from __future__ import annotations

import csv
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context

from flwr_kld.domain.frame import columns_of, read_parquet
from flwr_kld.errors import QueryRefused

logger = logging.getLogger("flwr_kld")

RECORDS, QUERY = "drift-records", "drift-query"
"""Keys of the node config."""
SAMPLE = "drift-sample"
"""Key of the run config: a public file whose rows simulated nodes share out."""
_REAL = (
    "this run simulates nodes on a public sample, and this node is a real one: run it with "
    f"{SAMPLE} = '' in its run config"
)


def node_records(context: Context) -> Any:
    """Load a node's records as its node config says, for `answer_drift_queries`.

    ``drift-records`` is the absolute path of a ``.csv`` or ``.parquet`` file, or the SQLAlchemy URL
    of a database, of which ``drift-query`` selects the rows. In CSV, an empty field is missing, and
    so are those that a row lacks; Parquet needs pyarrow or polars on the node.

    The nodes of a simulation have no such config. They share out the rows of the public file that
    the run config names under ``drift-sample``: node i of n takes the rows i, n + i, 2n + i, …
    A real node refuses a run that names a sample.

    Parameters
    ----------
    context : Context
        Context of the node.

    Returns
    -------
    data frame or mapping of column to list
        What `Table` and `Categories` encode.

    Raises
    ------
    QueryRefused
        If there are no such records. The operator's log says the kind of error, and neither where
        they should be nor anything in them: a URL may hold a password, an error may quote data.
    """
    place, query = context.node_config.get(RECORDS), context.node_config.get(QUERY)
    if sample := context.run_config.get(SAMPLE):
        return _part_of(str(sample), context)
    try:
        if not isinstance(place, str):
            raise ValueError
        if "://" in place:
            if not isinstance(query, str):
                raise ValueError
            return _of_database(place, query)
        # A relative path could lead into the app's own folder, which the server fills.
        if not Path(place).is_absolute():
            raise ValueError
        return _of_file(place)
    except Exception as error:
        logger.error(
            "records cannot be loaded (%s): the node config names them under %s, by the absolute "
            "path of a .csv or .parquet file (which needs pyarrow or polars), or by a database's "
            "URL with a query under %s",
            type(error).__name__, RECORDS, QUERY,
        )  # fmt: skip
        raise QueryRefused("the records cannot be loaded: the operator's log says why") from None


def require_no_sample(context: Context) -> None:
    """Refuse a run on a public sample where a node has records of its own.

    Raises
    ------
    QueryRefused
        What to run instead.
    """
    if context.run_config.get(SAMPLE) and RECORDS in context.node_config:
        raise QueryRefused(_REAL)


def _part_of(sample: str, context: Context) -> dict[str, Any]:
    """Return the public rows of a simulated node.

    Raises
    ------
    QueryRefused
        If the node is none of a simulation: a server must not name the file that a real node reads.
    """
    require_no_sample(context)
    number, nodes = (context.node_config.get(key) for key in ("partition-id", "num-partitions"))
    if number is None or nodes is None or not _is_simulated():
        raise QueryRefused(_REAL)
    try:
        columns = columns_of(_of_file(sample))
        return {name: column[int(number) :: int(nodes)] for name, column in columns.items()}
    except Exception as error:
        kind = type(error).__name__
        raise QueryRefused(f"the sample of the simulation cannot be read ({kind})") from None


def _is_simulated() -> bool:
    """Whether Ray runs this node, as Flower's simulations do."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _of_file(place: str) -> Any:
    return {".csv": _of_csv, ".parquet": read_parquet}[Path(place).suffix](place)


def _of_csv(place: str) -> dict[str, list[Any]]:
    """Read text only: a reader that guesses a column's type lets one record change all others."""
    usual = csv.field_size_limit(sys.maxsize)
    try:
        with open(place, newline="", encoding="utf-8-sig", errors="replace") as lines:
            rows = csv.reader(lines)
            names = next(rows)
            return _columns(names, list(_fields(rows, len(names))))
    finally:
        csv.field_size_limit(usual)


def _fields(rows: Iterator[list[str]], number: int) -> Iterator[list[str | None]]:
    """Yield so many fields of each row, None for those that are empty or lacking."""
    for row in rows:
        if row:
            yield [text or None for text in row[:number]] + [None] * (number - len(row))


def _of_database(url: str, query: str) -> dict[str, list[Any]]:
    from sqlalchemy import create_engine  # imported here: an app starts anew for every message

    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.connect() as connection:
            found = connection.exec_driver_sql(query)
            return _columns(list(found.keys()), found.all())
    finally:
        engine.dispose()


def _columns(names: list[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    if len(set(names)) < len(names):
        raise ValueError
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
