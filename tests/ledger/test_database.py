"""What opens: schemas and URLs."""

import math
import sqlite3
import stat
from contextlib import closing

import pytest
import sqlalchemy as sa
from ledger.books import alter, tables

from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.ledger import Kind, Ledger
from flwr_kld.ledger.schema import ledger_version, metadata


@pytest.mark.parametrize("other", ["''", "'0'", "'2'", "'1 '", "'0003'", "'x'"])
def test_another_schema_is_refused(url, ledger, other):
    alter(ledger, f"UPDATE {ledger_version.name} SET version_num = {other}")
    with pytest.raises(LedgerUnavailable, match="schema"):
        Ledger(url)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_key_is_one_of_all_kinds(url, ledger, kind):
    """The tables themselves refuse what `reserve` would have to overlook."""
    insert = sa.text(
        "INSERT INTO checks (number, population, kind, key, started, state) "
        "VALUES (:number, 'default', :kind, 'monday', 0, 'reserved')"
    )
    with tables(ledger).writing() as connection:
        connection.execute(insert, {"number": 1, "kind": "check"})
    database = tables(ledger)
    with pytest.raises(Exception, match=r"(?i)unique"), database.writing() as connection:
        connection.execute(insert, {"number": 2, "kind": str(kind)})


def test_no_column_takes_a_float(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    for table in metadata.tables.values():
        types = {
            str(column.type.compile(dialect=sa.dialects.sqlite.dialect())) for column in table.c
        }
        assert types <= {"INTEGER", "TEXT", "BLOB"}
    with pytest.raises(LedgerUnavailable, match="REAL"):
        alter(ledger, "UPDATE clock SET seen = 0.5")


def test_a_sqlite_ledger_writes_ahead_and_is_for_its_owner(tmp_path):
    path = tmp_path / "drift.db"
    Ledger(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("drift.db", "database"),
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite:///file:m1?mode=memory&cache=shared&uri=true", "memory"),
        ("sqlite:///file:m1?vfs=memdb&uri=true", "memory"),
        ("sqlite:///drift.db?mode=ro&uri=true", "options"),
        ("mysql://host/name", "PostgreSQL"),
    ],
)
def test_a_url_of_no_such_database_is_refused(url, why):
    with pytest.raises(ValueError, match=why):
        Ledger(url)


@pytest.mark.parametrize("patience", [0, -1, 1e-9, math.nan, math.inf, 1e6, True, "30"])
def test_a_patience_out_of_range_is_refused(tmp_path, patience):
    """PostgreSQL would take 0 for "for ever"."""
    for url in (f"sqlite:///{tmp_path}/drift.db", "postgresql://user@nowhere/name"):
        with pytest.raises(ValueError, match="patience"):
            Ledger(url, patience=patience)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(LedgerUnavailable) as caught:
        Ledger(f"postgresql://user:secret@/name?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "user" in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{tmp_path}/none/drift.db")
