"""A node's files under cuts, kills and foreign hands: what is damaged is never begun anew."""

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from flwr.app import Context, RecordDict
from forks import forget_claims
from guard.files import guard_file, question
from patience import HANGS

from flwr_kld.clients.check_memory import claim
from flwr_kld.common.durable_files import Damaged, Schema, writing
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard

PAGE = 4096


def remember(folder, check):
    forget_claims()  # as a process that has just begun
    claim(Context(1, 7, {}, RecordDict(), {}), check, folder / "claims.db")


def spend(folder, check):
    guard = Guard.from_file(folder / "guard.toml", clock=lambda: 5000.0)
    guard.admit(question(check, epsilon=0.01), "0")


def answer(folder, check):
    """Claim an answer and reserve its spend, as a node does."""
    remember(folder, check)
    spend(folder, check)


@pytest.fixture
def folder(tmp_path):
    """Some claims and receipts; both files closed."""
    guard_file(tmp_path)
    for check in range(20):
        answer(tmp_path, f"{check}")
    return tmp_path


@pytest.mark.parametrize(
    "size", [0, 1, 15, 100, 511, 512, PAGE - 1, PAGE, PAGE + 1, -PAGE - 1, -PAGE, 1 - PAGE, -1]
)
@pytest.mark.parametrize(
    ("name", "again"), [("receipts.db", spend), ("claims.db", remember)], ids=["spend", "claim"]
)
def test_a_file_that_was_cut_is_refused_and_left_alone(folder, name, again, size):
    left = (folder / name).read_bytes()[:size]
    (folder / name).write_bytes(left)
    for check in ("0", "19", "next"):
        with pytest.raises(QueryRefused, match="cannot") as refused:
            again(folder, check)
        assert "answered" not in str(refused.value)
    assert (folder / name).read_bytes() == left


def test_a_page_that_is_cut_is_read_from_the_log(folder):
    """As a power cut or a full disk leaves them; what is claimed stays claimed."""
    with closing(sqlite3.connect(folder / "claims.db")) as other:
        other.execute("SELECT * FROM claims").fetchall()
        remember(folder, "kept in the log, while another has the file open")
        with (folder / "claims.db").open("ab") as file:
            file.write(b"half a page")
        remember(folder, "next")
        with pytest.raises(QueryRefused, match="once"):
            remember(folder, "0")


def test_the_operator_is_told_what_to_do_and_the_server_is_not(folder, caplog):
    for name, words in (("receipts.db", "write a receipt"), ("claims.db", "memory of checks")):
        (folder / name).write_bytes(b"")
        with caplog.at_level(logging.ERROR), pytest.raises(QueryRefused, match=words) as refused:
            answer(folder, "next")
        assert name not in str(refused.value)
        assert name in caplog.text
        assert "restore it from a backup" in caplog.text
        (folder / name).unlink()


@pytest.mark.parametrize("beside", ["-wal", "-shm", "-journal"])
def test_a_file_that_is_gone_from_beside_its_log_is_not_new(folder, beside):
    (folder / "receipts.db").unlink()
    (folder / f"receipts.db{beside}").write_bytes(b"what a killed process left")
    with pytest.raises(QueryRefused, match="receipt"):
        answer(folder, "next")
    assert not (folder / "receipts.db").exists()


def test_a_file_that_is_named_by_a_link_is_not_begun_anew_beside_its_log(folder):
    """SQLite keeps its log beside the file itself."""
    real = folder / "volume" / "receipts.db"
    real.parent.mkdir()
    (folder / "receipts.db").rename(real)
    (folder / "receipts.db").symlink_to(real)
    spend(folder, "through the link")
    with closing(sqlite3.connect(real)) as other:
        other.execute("SELECT * FROM receipts").fetchall()
        spend(folder, "kept in the log, while another has the file open")
        real.unlink()
        with pytest.raises(QueryRefused, match="receipt"):
            spend(folder, "next")
    assert not real.exists()


@pytest.mark.parametrize("name", ["receipts.db", "claims.db", "node.key"])
def test_links_that_lead_nowhere_are_refused_and_the_operator_is_told(tmp_path, name, caplog):
    guard_file(tmp_path)
    (tmp_path / name).symlink_to(tmp_path / name)
    with caplog.at_level(logging.ERROR), pytest.raises(QueryRefused) as refused:
        answer(tmp_path, "next")
    assert name in caplog.text
    assert name not in str(refused.value)
    with pytest.raises(sqlite3.Error):
        verify(tmp_path / "receipts.db")


def alter(path, *statements):
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    ["PRAGMA user_version = 2", "PRAGMA user_version = 0", "PRAGMA application_id = 1"],
)
@pytest.mark.parametrize("name", ["receipts.db", "claims.db"])
def test_a_file_of_another_schema_is_refused_and_left_alone(folder, name, statement):
    alter(folder / name, statement)
    left = (folder / name).read_bytes()
    with pytest.raises(QueryRefused):
        answer(folder, "next")
    assert (folder / name).read_bytes() == left
    if name == "receipts.db":
        with pytest.raises(Damaged):
            verify(folder / name)


def test_another_programs_database_gets_no_table(tmp_path):
    alter(tmp_path / "theirs.db", "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = (tmp_path / "theirs.db").read_bytes()
    schema = Schema(1, ["CREATE TABLE ours (x)"])
    with pytest.raises(Damaged), writing(tmp_path / "theirs.db", schema):
        pass
    assert (tmp_path / "theirs.db").read_bytes() == before


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from guard.test_durable import STEPS, answer

def die_at(step, call):
    module, name, when = step.split()
    module = __import__(module)
    real, calls = getattr(module, name), []
    def killed(*arguments, **options):
        calls.append(name)
        if when == "after":
            done = real(*arguments, **options)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return done if when == "after" else real(*arguments, **options)
    setattr(module, name, killed)

for folder, step, call in STEPS:
    child = os.fork()
    if child == 0:
        try:
            die_at(step, call)
            answer(Path(sys.argv[1], folder), "killed")
        finally:
            os._exit(7)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, (step, call)
"""
STEPS = [
    (f"{step} {call}".replace(" ", "-"), step, call)
    for step in (
        "os fsync before", "os link before", "os link after", "os unlink before",
        "sqlite3 connect before", "sqlite3 connect after",
    )
    for call in (1, 2, 3)
]  # fmt: skip


def test_a_process_that_is_killed_while_it_makes_its_files_locks_nobody_out(tmp_path, request):
    """Claims, key and receipts are made in this order: each is there whole, or not at all."""
    for folder, _, _ in STEPS:
        (tmp_path / folder).mkdir()
        guard_file(tmp_path / folder)
    tests = str(request.config.rootpath / "tests")
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), tests], check=True, timeout=HANGS)
    for folder, _, _ in STEPS:
        answer(tmp_path / folder, "next")
        assert [r.check for r in verify(tmp_path / folder / "receipts.db").receipts] == ["next"]
        with pytest.raises(QueryRefused, match="once"):
            answer(tmp_path / folder, "next")


def test_what_is_made_is_for_its_owner_only(folder):
    for name in ("receipts.db", "claims.db"):
        assert os.stat(folder / name).st_mode & 0o777 == 0o600
