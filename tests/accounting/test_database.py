"""What opens: schemas, their migrations, and URLs."""

import math
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from accounting.books import alter
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from flwr_kld.accounting import Ledger
from flwr_kld.accounting.errors import LedgerUnavailable
from flwr_kld.accounting.migrations import versions
from flwr_kld.accounting.schema import REVISION, VERSION_TABLE, metadata


def test_migrations_make_the_schema_that_the_code_reads(ledger):
    with ledger._database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == REVISION


def test_the_revision_is_the_last_file():
    names = sorted(path.stem for path in Path(versions.__file__).parent.glob("rev_*.py"))
    assert names[-1] == f"rev_{REVISION}"


def test_a_newer_schema_is_refused(url, ledger):
    alter(ledger, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(
        LedgerUnavailable, match=r"has schema '9999' .* reads '0003': upgrade flwr-kld"
    ):
        Ledger(url)


@pytest.mark.parametrize("odd", ["''", "'0000'", "'00001'", "'0003 '", "'x'"])
def test_a_schema_that_no_version_wrote_is_refused(url, ledger, odd):
    alter(ledger, f"UPDATE {VERSION_TABLE} SET version_num = {odd}")
    with pytest.raises(LedgerUnavailable, match=r"has schema '.*restore it from a backup"):
        Ledger(url)


def test_a_schema_without_a_version_is_refused(url, ledger):
    alter(ledger, f"DELETE FROM {VERSION_TABLE}")
    with pytest.raises(LedgerUnavailable, match=r"has schema '' .*restore it from a backup"):
        Ledger(url)


def test_no_column_takes_a_float(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    for table in metadata.tables.values():
        types = {
            str(column.type.compile(dialect=sa.dialects.sqlite.dialect())) for column in table.c
        }
        assert types <= {"INTEGER", "TEXT", "BLOB"}
    with pytest.raises(LedgerUnavailable, match="cannot store REAL value in INTEGER column"):
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
        ("drift.db", "not a database URL: try sqlite:///drift.db"),
        ("sqlite://", "name a file, not memory"),
        ("sqlite:///:memory:", "name a file, not memory"),
        ("sqlite:///file:m1?mode=memory&cache=shared&uri=true", "name a file, not memory"),
        ("sqlite:///file:m1?vfs=memdb&uri=true", "name a file, not memory"),
        ("sqlite:///drift.db?mode=ro&uri=true", "and no options"),
        ("mysql://host/name", "SQLite or PostgreSQL, not in mysql"),
    ],
)
def test_a_url_of_no_such_database_is_refused(url, why):
    with pytest.raises(ValueError, match=why):
        Ledger(url)


def test_no_refused_url_leaves_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not memory"):
        Ledger("sqlite:///file:m1?mode=memory&cache=shared&uri=true")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("patience", [0, -1, 1e-9, math.nan, math.inf, 1e6, True, "30"])
def test_a_patience_out_of_range_is_refused(tmp_path, patience):
    """PostgreSQL would take 0 for "for ever"."""
    for url in (f"sqlite:///{tmp_path}/drift.db", "postgresql://user@nowhere/name"):
        with pytest.raises(ValueError, match=r"patience must be a number of seconds from 0\.001"):
            Ledger(url, patience=patience)
    assert list(tmp_path.iterdir()) == []


def test_a_patience_may_be_of_any_number_type(url):
    Ledger(url, patience=np.float32(0.5))
    Ledger(url, patience=np.int64(2))


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(LedgerUnavailable, match="cannot be opened") as caught:
        Ledger(f"postgresql://user:secret@/name?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "user" in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(LedgerUnavailable, match=r"cannot be opened: .*No such file"):
        Ledger(f"sqlite:///{tmp_path}/none/drift.db")
