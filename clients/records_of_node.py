"""Loads a node's records from the file or database that its node config names."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context

from flwr_kld.ask.period import asked_period
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.table.base import Domain
from flwr_kld.table.dialect import FILES, Dialect, is_text_file
from flwr_kld.table.files import DATABASES, parquet_parts, require_database, rows_in
from flwr_kld.table.frame import OwnColumns, TextFile, columns_of

logger = logging.getLogger("flwr_kld")

RECORDS, QUERY, MISSING = "drift-records", "drift-query", "drift-missing"
"""Keys of the node config."""
_DIALECT = {
    "drift-delimiter": "delimiter",
    "drift-encoding": "encoding",
    "drift-decimal": "decimal",
    "drift-dates": "dates",
    "drift-line-end": "line_end",
}
"""Further ones, and the field of a `Dialect` that each states."""
SAMPLE = "drift-sample"
"""Key of the run config: a public file whose rows simulated nodes share out."""
_REAL = (
    "this run simulates nodes on a public sample, and this node is a real one: run it with "
    f"{SAMPLE} = '' in its run config"
)


def node_records(context: Context, domain: Domain | None = None) -> Any:
    """Load a node's records as its node config says, for `answer_drift_queries`.

    ``drift-records`` is the absolute path of a text file (``.csv``, ``.tsv``, also ``.gz`` or
    ``.zst``) or a ``.parquet`` file, or the URL of an SQLite, PostgreSQL, MySQL or MariaDB
    database, of which ``drift-query`` selects the rows, on a connection that only reads. A query
    for checks of a period may name its ends, ``… WHERE visited >= {from} AND visited < {to}``, and
    then has to select that column, too.

    In a text file, each line below the header is a record, a blank one too, and a text never goes
    on in the next line: remove line breaks from texts, or use Parquet or a database. Lines end as
    the header does, or in LF if ``drift-line-end`` is ``"lf"``. An empty field is missing, and so
    are those that a line lacks; what it has too many is left out.

    A table knows how texts are written, in files and databases. Where the node's own are written
    otherwise, its config says so: ``drift-delimiter``, ``drift-encoding``, ``drift-decimal``,
    ``drift-dates``, as in `Dialect`, and ``drift-missing``, with ``|`` between the texts.

    The nodes of a simulation have no such config. They share out the rows of the public file that
    the run config names under ``drift-sample``: node i of n takes the rows i, n + i, 2n + i, …
    A real node refuses a run that names a sample.

    Parameters
    ----------
    context : Context
        Context of the node.
    domain : Domain, optional
        The table, if columns are wanted by name; it tells itself how to read a file.

    Returns
    -------
    data frame or mapping of column to list
        What `Table` and `Categories` encode.

    Raises
    ------
    QueryRefused
        If there are no such records. It says the kind of error, which the server learns; the
        operator's log says where and why, without a password or a data value.
    """
    if sample := context.run_config.get(SAMPLE):
        found = _part_of(str(sample), context)
    else:
        found = load_records(context.node_config)
    dialect = getattr(domain, "dialect", None)
    return found.read_by(dialect) if dialect and isinstance(found, TextFile) else found


def require_no_sample(context: Context) -> None:
    """Refuse a run on a public sample where a node has records of its own."""
    if context.run_config.get(SAMPLE) and RECORDS in context.node_config:
        raise _is_real()


def _part_of(sample: str, context: Context) -> Any:
    """Return the public rows of a simulated node."""
    require_no_sample(context)
    number, nodes = (context.node_config.get(key) for key in ("partition-id", "num-partitions"))
    if number is None or nodes is None or not _is_simulated():
        raise _is_real()
    rows = slice(int(number), None, int(nodes))
    found = load_records({RECORDS: str(Path(sample).absolute())}, rows)
    if isinstance(found, TextFile):
        return found
    return {name: column[rows] for name, column in columns_of(found).items()}


def _is_real() -> QueryRefused:
    logger.error(_REAL)
    return QueryRefused(_REAL)


def _is_simulated() -> bool:
    """Whether Ray runs this node, as Flower's simulations do."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


class RecordsError(ValueError):
    """What is named has no records; says why in public words, never with a data value."""


class _NodeFile(TextFile):
    """A node's own, which is read when the table that reads it is known."""

    def blocks(self, names: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Read it, or refuse."""
        try:
            yield from super().blocks(names)
        except Exception as error:
            raise _refused(str(self.file), error) from None


def load_records(config: Mapping[str, Any], rows: slice = slice(None)) -> Any:
    """Load records; log why they cannot be loaded, and send the server the kind of error."""
    place, query = config.get(RECORDS), config.get(QUERY)
    try:
        if not isinstance(place, str):
            raise RecordsError(
                f"the node config names none: give {RECORDS}, the absolute path of a file, "
                f"{FILES}, or a database's URL and a query under {QUERY}"
            )
        own = _own_dialect(config)
        if "://" in place:
            found: Any = _of_database(place, query)
            return OwnColumns(found, own) if own else found
        if is_text_file(place):
            _require_file(place)
            return _NodeFile(place, own, rows=rows)
        parts = parquet_parts(Path(place)) if os.path.isdir(place) else [Path(place)]
        for part in parts:
            if part.suffix.lower() not in (".parquet", *DATABASES):
                raise RecordsError(f"the name must end in {FILES}")
            _require_file(str(part))
        found = rows_in(place)
        return OwnColumns(found, own) if own else found
    except Exception as error:
        raise _refused(place, error) from None


def _own_dialect(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the node config says of how its texts are written."""
    overrides = {field: config[key] for key, field in _DIALECT.items() if key in config}
    if (missing := config.get(MISSING)) is not None:
        overrides["missing"] = str(missing).split("|")
    Dialect(**overrides)  # refused here if it is none
    return overrides


def _refused(place: Any, error: Exception) -> QueryRefused:
    """Tell the operator why there are no records, and the server the kind of error."""
    logger.error("the records cannot be loaded%s: %s", _named(place), _cause(error))
    kind = type(error).__name__
    return QueryRefused(f"the records cannot be loaded ({kind}): the node's log says why")


def _named(place: Any) -> str:
    """Name a place, of a URL only what cannot be a part of its password."""
    if not isinstance(place, str):
        return ""
    if "://" not in place:
        return f" from {place}"
    try:
        from sqlalchemy import make_url

        url = make_url(place)
        return f" from {url.drivername}" + (
            f" {url.database}" if url.drivername == "sqlite" else ""
        )
    except Exception:  # its text may quote the URL
        return f" from the URL under {RECORDS}"


def _cause(error: Exception) -> str:
    """Say what went wrong in words that cannot quote a record: of a database, only its code."""
    if isinstance(error, RecordsError | DomainError | ImportError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return f"[Errno {error.errno}] {error.strerror}"
    error = getattr(error, "orig", None) or error
    code = getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
    if type(error).__module__.startswith("pymysql") and isinstance(error.args[0], int):
        code = str(error.args[0])
    why = next((f": {why}" for codes, why in _CAUSES if str(code) in codes), "")
    return type(error).__name__ + (f" ({code})" if code else "") + why


_CAUSES = (
    (
        {"SQLITE_ERROR", "42P01", "42703", "42601", "1146", "1054", "1064"},
        "the query is wrong, or names a table or column that is not there",
    ),
    ({"SQLITE_NOTADB"}, "it is not an SQLite database"),
    ({"SQLITE_READONLY", "25006", "1792"}, "the query writes, and is only to select"),
    ({"28000", "28P01", "1045"}, "the server refuses this user or password"),
    ({"3D000", "1049"}, "the server has no database of this name"),
)
"""What the codes of databases mean: of SQLite, of PostgreSQL, and of MySQL and MariaDB."""


def _require_file(place: str | None) -> None:
    """Refuse what could lead into the app's own folder, which the server fills, or never end."""
    if place is None or not Path(place).is_absolute():
        raise RecordsError(
            "give the file's absolute path: /srv/people.csv, or sqlite:////srv/people.db"
        )
    if not stat.S_ISREG(os.stat(place).st_mode):
        raise RecordsError("it is not a regular file")


def _of_database(url: str, query: Any) -> dict[str, list[Any]]:
    from sqlalchemy import make_url  # imported here: an app starts anew for every message

    from flwr_kld.table.database import read_rows

    require_database(url)
    if not isinstance(query, str) or not query.strip():
        raise RecordsError(f"a database needs a query under {QUERY}, which selects its rows")
    place, period = make_url(url), asked_period()
    if place.get_backend_name() == "sqlite":
        _require_file(place.database)
    return read_rows(url, query, ends=None if period is None else (period.start, period.end))
