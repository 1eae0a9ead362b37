"""Every test of a ledger runs on SQLite, and on PostgreSQL where a server is named."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from flwr_kld.ledger import Budget, Ledger

SERVER = "FLWR_KLD_TEST_POSTGRES"
NOW = 2_000_000_000.0
"""Later than any real clock: a ledger's time does not go back."""


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: no test here needs a disk that syncs."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, quick_folder) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{quick_folder}/drift.db"
        return
    if SERVER not in os.environ:
        pytest.skip(f"{SERVER} names no server: make test-databases")
    server = sa.make_url(os.environ[SERVER]).set(drivername="postgresql+psycopg")
    schema = f"ledger_{uuid.uuid4().hex}"
    engine = sa.create_engine(server, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    own = server.update_query_dict({"options": f"-csearch_path={schema}"})
    yield own.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def ledger(url, ledger_at) -> Ledger:
    """A ledger with a budget of 1 nat in 30 days, added up."""
    if url.startswith("sqlite"):
        ledger_at(Path(str(sa.make_url(url).database)))
    made = Ledger(url)
    made.set_budget(Budget(epsilon=1.0, delta=1e-6, window_days=30, composition="sum"), now=NOW)
    return made
