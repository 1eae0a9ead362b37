"""Rows of a database, by drivers none of whose values fails to load."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, create_engine, make_url, text
from sqlalchemy.types import NullType

from flwr_kld.common.errors import DomainError
from flwr_kld.common.extras import require
from flwr_kld.table.dialect import distinct

_TOTAL = {"bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "bytea"}
"""PostgreSQL's types all of whose values psycopg reads."""


def read_rows(url: str, query: str, *, ends: tuple[str, str] | None = None) -> dict[str, list[Any]]:
    """Return the columns of a query, on a connection that only reads.

    The query may name the ends of the period that is asked for, {from} and {to}.
    """
    place = make_url(url)
    backend, _, driver = place.drivername.partition("+")
    own, prepare = _DRIVERS.get(backend, ("", None))
    if prepare is None or driver not in ("", own):
        use = f"{backend}+{own}://" if own else f"one of {', '.join(_DRIVERS)}"
        raise DomainError(
            f"loading by {place.drivername} may fail for some values, and a failure would tell of "
            f"them: use {use}, or export the rows to Parquet or CSV"
        )
    if own == "psycopg":
        require("psycopg", extra="postgres")
    elif own == "pymysql":
        require("pymysql", extra="mysql")
    place = place.set(drivername=f"{backend}+{own}")
    if backend == "sqlite":  # sqlite3's converters raise
        place = place.update_query_dict({"detect_types": "0"})
    engine = create_engine(place, hide_parameters=True)
    try:
        with engine.connect() as connection:  # whose transaction is rolled back
            prepare(connection)
            found = connection.execute(_of_period(query, ends))
            names = distinct(list(found.keys()))
            rows = found.all()
            return {name: [row[i] for row in rows] for i, name in enumerate(names)}
    finally:
        engine.dispose()


def _of_period(query: str, ends: tuple[str, str] | None) -> Any:
    """Put the ends of the period in the place of {from} and {to}."""
    bound = text(
        query.replace(":", r"\:").replace("{from}", ":period_start").replace("{to}", ":period_end")
    )
    if "{from}" not in query and "{to}" not in query:
        return bound
    if ends is None or "{from}" not in query or "{to}" not in query:
        raise DomainError(
            "the query names {from} and {to}, both, for checks of a period, and answers no other"
        )
    of_any_type = (
        bindparam(name, end.replace("T", " "), NullType())
        for name, end in zip(("period_start", "period_end"), ends, strict=True)
    )
    return bound.bindparams(*of_any_type)


def _by_pysqlite(connection: Connection) -> None:
    connection.exec_driver_sql("PRAGMA query_only = ON")
    own: Any = connection.connection.driver_connection
    own.text_factory = partial(str, encoding="utf-8", errors="replace")


def _by_psycopg(connection: Connection) -> None:
    """Take as text whatever psycopg raises for at some values: infinite dates, times of 24:00."""
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    # Dates in ISO 8601; text as it is stored, as the server raises for what it cannot convert.
    connection.exec_driver_sql(
        "SELECT set_config('datestyle', 'ISO', true), "
        "set_config('client_encoding', current_setting('server_encoding'), false)"
    )
    adapt = require("psycopg.adapt", extra="postgres")
    own: Any = connection.connection.driver_connection
    codec = own.info.encoding.replace("ascii", "utf-8")

    class AsText(adapt.Loader):  # type: ignore[name-defined, misc]
        def load(self, data: bytes) -> str:
            return bytes(data).decode(codec, "replace")

    own.adapters.register_loader(0, AsText)  # types that psycopg does not know
    for known in own.adapters.types:
        for oid in {known.oid, known.array_oid} - {0}:
            if known.name not in _TOTAL or oid != known.oid:
                own.adapters.register_loader(oid, AsText)


def _by_pymysql(connection: Connection) -> None:
    """Take as text what is no number; the server sends all of it as bytes."""
    connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
    own: Any = connection.connection.driver_connection
    types = require("pymysql.constants.FIELD_TYPE", extra="mysql")
    as_text = partial(str, encoding=own.encoding, errors="replace")
    readers: dict[Callable[[bytes], Any], str] = {
        int: "TINY SHORT INT24 LONG LONGLONG YEAR",
        float: "FLOAT DOUBLE",
        lambda data: Decimal(data.decode()): "DECIMAL NEWDECIMAL",
        partial(int.from_bytes, byteorder="big"): "BIT",
    }
    numbers = {getattr(types, n): read for read, names in readers.items() for n in names.split()}
    every = (oid for name, oid in vars(types).items() if name.isupper())
    own.use_unicode, own.decoders = False, {**dict.fromkeys(every, as_text), **numbers}


_DRIVERS: dict[str, tuple[str, Callable[[Connection], None]]] = {
    "sqlite": ("pysqlite", _by_pysqlite),
    "postgresql": ("psycopg", _by_psycopg),
    "mysql": ("pymysql", _by_pymysql),
    "mariadb": ("pymysql", _by_pymysql),
}
"""Of each kind of database its driver, and what lets it load any value."""
