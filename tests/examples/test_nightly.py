"""The nightly README's commands, on a SuperLink, and on PostgreSQL where a server is named."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from example_trips import write_trips
from flower_deployment import BIN, Deployment, deployed
from patience import HANGS

from flwr_kld.ledger import Ledger

ROOT = Path(__file__).parents[2]
SERVER = "FLWR_KLD_TEST_POSTGRES"
pytestmark = pytest.mark.slow


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """URL of an empty database; `make test-databases` names a server of its own."""
    if SERVER not in os.environ:
        return f"sqlite:///{tmp_path}/drift.db"
    server = sa.make_url(os.environ[SERVER]).set(drivername="postgresql+psycopg")
    with sa.create_engine(server).begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA nightly")
    own = sa.make_url(os.environ[SERVER]).update_query_dict({"options": "-csearch_path=nightly"})
    return own.render_as_string(hide_password=False)


@pytest.fixture
def deployment(tmp_path: Path, ledger: str) -> Iterator[Deployment]:
    with deployed(tmp_path, FLWR_KLD_LEDGER=ledger) as running:
        for node in range(4):
            running.add_node(f"node{node}", f'drift-records="{write_trips(tmp_path, node)}"')
        yield running


def commands() -> list[str]:
    """The README's ``flwr-kld`` lines, on the connection of this test."""
    text = (ROOT / "examples/nightly-postgresql/README.md").read_text(encoding="utf-8")
    return re.findall(r"^flwr-kld .*", text.replace(" prod ", " real "), re.MULTILINE)


def test_a_night_is_paid_for_once(deployment: Deployment, ledger: str):
    def said(line: str) -> tuple[int, str]:
        program, *arguments = shlex.split(line)
        done = subprocess.run(
            [BIN / program, *arguments], env=deployment.environment, cwd=ROOT,
            capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    budget, check, report = commands()
    assert said(budget)[0] == 0
    (code, first), (again, second) = said(check), said(check)
    assert code == again == 0, first + second
    assert first.startswith("OK: no drift"), first
    assert "no drift" in said(report)[1]
    assert [entry.state for entry in Ledger(ledger).history()] == ["settled"]
