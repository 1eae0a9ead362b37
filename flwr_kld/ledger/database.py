"""One writer at a time on SQLite or PostgreSQL, and errors that say what is wrong with the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from flwr_kld.common.durable_files import Schema, make, make_database, write_ahead
from flwr_kld.common.errors import LedgerUnavailable, damaged
from flwr_kld.common.extras import require
from flwr_kld.kernel.arguments import finite
from flwr_kld.ledger.schema import SCHEMA, clock, ledger_version, metadata

_LOCK = 0x666C7772_6B6C64
"""PostgreSQL's advisory lock of all ledgers in a database."""
_NEW = Schema(0, [])
"""Of a file whose tables are made in the first transaction."""


class Database:
    """Short transactions on connections of their own: nothing is shared by forks and threads."""

    def __init__(self, url: str, patience: float, *, read_only: bool = False) -> None:
        # Not 0, which PostgreSQL takes for "for ever".
        self._patience = finite("patience", patience, least=0.001, most=86_400, unit="seconds")
        try:
            parsed = sa.make_url(url)
        except ArgumentError:
            raise ValueError(f"{url!r} is not a database URL: try sqlite:///drift.db") from None
        self.name = parsed.render_as_string(hide_password=True)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            if not parsed.database or ":memory:" in parsed.database or parsed.query:
                raise ValueError(
                    "a ledger outlives its process: name a file, not memory, and no options: "
                    "sqlite:///drift.db"
                )
            path, sqlite = Path(parsed.database), parsed.set(drivername="sqlite")
            if read_only:
                uri = f"file:{quote(str(path.absolute()))}"
                sqlite = sqlite.set(database=uri, query={"mode": "ro", "uri": "true"})
            self._engine = sa.create_engine(
                sqlite,
                poolclass=NullPool,
                connect_args={"timeout": self._patience, "isolation_level": None},
            )
            if not read_only:
                with self._explained("opened"):
                    make_database(path, _NEW)
                    write_ahead(self._execute, self._patience)
        elif backend == "postgresql":
            require("psycopg", extra="postgres")
            self._engine = sa.create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                connect_args={"connect_timeout": max(2, int(self._patience))},
            )
        else:
            raise ValueError(f"a ledger is kept in SQLite or PostgreSQL, not in {backend}")
        self._sqlite, self._read_only = backend == "sqlite", read_only
        if read_only:
            with self.reading():
                return
        with self.writing("opened") as connection:
            found = _schema(connection)
            if found is None:
                metadata.create_all(connection, checkfirst=False)
                connection.execute(ledger_version.insert().values(version_num=SCHEMA))
                connection.execute(clock.insert().values(id=1, seen=0))
            elif found != SCHEMA:
                raise self._other_schema(found)
            done = connection.execute(
                clock.update().values(seen=clock.c.seen)
            )  # can it be written?
            if done.rowcount != 1:
                raise damaged("the clock")

    @contextmanager
    def writing(self, doing: str = "written") -> Iterator[sa.Connection]:
        """Hold the write lock; commit to the disk at the end, or leave no trace."""
        with self._explained(doing), self._engine.connect() as connection:
            if self._sqlite:
                connection.exec_driver_sql("PRAGMA synchronous = FULL")
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(self._patience * 1000)}")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield connection
            connection.commit()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """See one state of the database."""
        with self._explained("read"), self._engine.connect() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN")
            else:
                only = ", READ ONLY" if self._read_only else ""
                connection.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ{only}")
            if self._read_only and (found := _schema(connection)) != SCHEMA:
                raise self._other_schema(found)
            yield connection

    @contextmanager
    def holding(self, name: str) -> Iterator[bool]:
        """Acquire a named lock; return False while another process holds it.

        The lock belongs to this process, or to its connection to PostgreSQL, and ends with it,
        however it dies: no clock decides whether the holder is gone.
        """
        with self._explained("locked"):
            lock, mine = self._file_lock(name) if self._sqlite else self._advisory_lock(name)
        with closing(lock):
            yield mine

    def _file_lock(self, name: str) -> tuple[sqlite3.Connection, bool]:
        """Lock an empty file beside the ledger, as SQLite does before it writes."""
        digest = blake2b(name.encode(), digest_size=8).hexdigest()
        place = Path(f"{os.path.realpath(self._engine.url.database or '')}-held-{digest}")
        if not place.exists():
            make(place, b"")
        lock = sqlite3.connect(place, timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return lock, False
            lock.close()
            raise
        return lock, True

    def _advisory_lock(self, name: str) -> tuple[sa.Connection, bool]:
        """Lock a name in a ledger's own schema for as long as the connection is open."""
        connection = self._engine.connect()
        # A host that vanished, with its connection open, is noticed after two minutes.
        for setting, seconds in (("idle", 60), ("interval", 10), ("count", 6)):
            connection.exec_driver_sql(f"SET tcp_keepalives_{setting} = {seconds}")
        key = sa.func.hashtextextended(sa.func.current_schema() + "/" + name, _LOCK)
        mine = connection.execute(sa.select(sa.func.pg_try_advisory_lock(key))).scalar()
        connection.commit()
        return connection, bool(mine)

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn what a database or its file system says into one error."""
        try:
            yield
        except DBAPIError as error:
            raise self._unavailable(doing, error.orig or error) from error
        except (OSError, sqlite3.Error, UnicodeError) as error:
            raise self._unavailable(doing, error) from error

    def _unavailable(self, doing: str, error: BaseException) -> LedgerUnavailable:
        why = " ".join(str(error).split()) or type(error).__name__
        return LedgerUnavailable(f"the ledger {self.name} cannot be {doing}: {why}")

    def _execute(self, statement: str) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def _other_schema(self, found: object) -> LedgerUnavailable:
        if found is None:
            return LedgerUnavailable(f"the database {self.name} is not a ledger of flwr-kld")
        return LedgerUnavailable(
            f"the ledger {self.name} has schema {found!r} and this version of flwr-kld reads "
            f"{SCHEMA!r}: use the version that made it, or restore it from a backup"
        )


def _schema(connection: sa.Connection) -> str | None:
    """Return the schema of a database; None if it has none of ours."""
    if not sa.inspect(connection).has_table(ledger_version.name):
        return None
    return connection.execute(sa.select(ledger_version.c.version_num)).scalar() or ""
