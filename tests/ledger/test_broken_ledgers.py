"""What is refused: damaged, held, read-only and full ledgers, before anything is asked."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import zlib
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from forks import forked, joined
from ledger.books import REPORT, alter, ask, tables
from ledger.conftest import NOW
from sqlalchemy import text

from flwr_kld.common.durable_files import make_database
from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.ledger import Budget, Ledger, database
from flwr_kld.ledger.entry import Remembered


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "drift.db"
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{path}")
    assert path.read_bytes() == b"Dear diary, " * 1000


@pytest.mark.parametrize("size", [0, 1, 511, 512, 4095, 4096, 8192, -4096, -1])
def test_a_ledger_that_was_cut_is_not_begun_anew(tmp_path, size):
    path = tmp_path / "drift.db"
    ledger = Ledger(f"sqlite:///{path}")
    ledger.set_budget(Budget(1.0, 0.0, 30), now=NOW)
    ledger.reserve("1", ask(0.1, "a"), now=NOW)
    left = path.read_bytes()[:size]
    path.write_bytes(left)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{path}")
    assert path.read_bytes() == left


def test_a_ledger_that_is_gone_from_beside_its_log_is_not_begun_anew(tmp_path):
    (tmp_path / "drift.db-wal").write_bytes(b"what a killed process left")
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{tmp_path}/drift.db")


def test_a_ledger_whose_first_process_was_killed_before_its_tables_opens(tmp_path):
    make_database(tmp_path / "drift.db", database._NEW)
    Ledger(f"sqlite:///{tmp_path}/drift.db").set_budget(Budget(1.0, 0.0, 30))


def test_a_ledger_with_torn_pages_lets_nothing_start(tmp_path):
    path = tmp_path / "drift.db"
    ledger = Ledger(f"sqlite:///{path}")
    ledger.set_budget(Budget(1.0, 0.0, 30), now=NOW)
    for i in range(3):
        ledger.reserve(f"{i}", ask(0.1, *(f"client {j}" for j in range(2000))), now=NOW)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(4096, size, 4096):
            file.seek(page)
            file.write(b"\xff" * 512)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{path}").reserve("next", ask(0.1, "a"), now=NOW)


@pytest.mark.parametrize(
    ("statement", "members"),
    [
        ("UPDATE costs SET epsilon = 1", {}),
        ("UPDATE checks SET members = costs.noise FROM costs", {}),
        ("UPDATE checks SET members = :members", {"members": b""}),
        ("UPDATE checks SET members = :members", {"members": zlib.compress(b"")}),
        ("UPDATE budgets SET protects = 'nobody'", {}),
        ("DELETE FROM clock", {}),
    ],
)
def test_a_damaged_row_lets_nothing_start(ledger, statement, members):
    ledger.settle(ledger.reserve("1", ask(0.1, "a"), now=NOW), REPORT, now=NOW)
    with tables(ledger).writing() as connection:
        connection.execute(text(statement), members)
    for attempt in (
        lambda: ledger.reserve("2", ask(0.1, "a"), now=NOW),
        lambda: ledger.spent(now=NOW),
    ):
        with pytest.raises(LedgerUnavailable):
            attempt()


@pytest.mark.parametrize("statement", ["UPDATE checks SET asked = 7", "DELETE FROM costs"])
def test_a_cost_that_is_gone_lets_nothing_start(tmp_path, statement):
    path = tmp_path / "drift.db"
    ledger = Ledger(f"sqlite:///{path}")
    ledger.set_budget(Budget(1.0, 0.0, 30), now=NOW)
    ledger.reserve("1", ask(0.1, "a"), now=NOW)
    with closing(sqlite3.connect(path)) as db:  # which does not enforce foreign keys
        db.execute(statement)
        db.commit()
    for attempt in (
        lambda: ledger.reserve("2", ask(0.1, "a"), now=NOW),
        lambda: ledger.spent(now=NOW),
        lambda: list(ledger.history()),
        lambda: ledger.set_budget(Budget(2.0, 0.0, 30), now=NOW),
    ):
        with pytest.raises(LedgerUnavailable):
            attempt()


@pytest.mark.parametrize("torn", ["torn", "", "[" * 100_000], ids=["torn", "empty", "deep"])
def test_damaged_reports_and_states_are_noticed(ledger, torn):
    reservation = ledger.reserve("1", ask(0.1, "a"), now=NOW)
    ledger.settle(reservation, REPORT, states=[Remembered("alarm", 1)], now=NOW)
    alter(ledger, f"UPDATE checks SET report = '{torn}'")
    alter(ledger, f"UPDATE states SET value = '{torn}'")
    for attempt in (
        lambda: [entry.report for entry in ledger.history()],
        lambda: ledger.check("1").report,
        lambda: ledger.state("alarm"),
    ):
        with pytest.raises(LedgerUnavailable):
            attempt()


def test_a_ledger_that_is_held_too_long_is_refused(url, ledger):
    held, done = threading.Event(), threading.Event()

    def hold():
        with tables(ledger).writing():
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(10)
        with pytest.raises(LedgerUnavailable, match="lock"):
            Ledger(url, patience=0.2)
        assert ledger.spent(now=NOW).epsilon == 0  # who reads does not wait
    finally:
        done.set()
        thread.join()
    Ledger(url, patience=0.2)


@contextmanager
def folder_for_nobody(mode):
    """A folder with a ledger in it, and a process's rights to it."""
    folder = Path(tempfile.mkdtemp(prefix="flwr-kld-"))
    try:
        url = f"sqlite:///{folder}/drift.db"
        Ledger(url).set_budget(Budget(1.0, 0.0, 30), now=NOW)
        (folder / "drift.db").chmod(mode)
        folder.chmod(0o755)
        yield url
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
@pytest.mark.parametrize("opened_before", [False, True])
def test_a_read_only_ledger_refuses_before_anything_is_asked(opened_before):
    with folder_for_nobody(0o444) as url:
        ledger = Ledger(url) if opened_before else None

        def work():
            os.setgid(65534)
            os.setuid(65534)
            with pytest.raises(LedgerUnavailable, match=r"denied|readonly|open"):
                (ledger or Ledger(url)).reserve("1", ask(0.1, "a"), now=NOW)

        assert joined(forked(work)) == [0]
        assert list(Ledger(url).history()) == []


def fill_up(url):
    """Reserve and settle until the disk is full; what is refused has asked nobody."""
    ledger, asked, settled, why = Ledger(url), 0, 0, ""
    names = [f"client {j}" for j in range(50)]
    while not why:
        try:
            reservation = ledger.reserve(f"{asked}", ask(1e-6, *names), now=NOW)
            asked += 1
            ledger.settle(reservation, {"text": "x" * 3000}, now=NOW)
            settled += 1
        except LedgerUnavailable as error:
            why = str(error)
    assert any(word in why for word in ("full", "disk I/O error", "too large", "No space"))
    with pytest.raises(LedgerUnavailable):
        ledger.settle(ledger.reserve("more", ask(1e-6, "a"), now=NOW), {"text": "x" * 10**6})
    return asked, settled


def told(path, work):
    """Run `work` in a process of its own, and return the two numbers that it returned."""
    assert joined(forked(lambda: path.write_text(repr(work())))) == [0]
    return tuple(map(int, path.read_text().strip("()").split(",")))


def after_the_flood(url, asked, settled):
    """Everything that was asked is in the books."""
    ledger = Ledger(url)
    states = [entry.state for entry in ledger.history() if entry.key != "more"]
    assert len(states) == asked > 5
    assert states.count("settled") == settled
    assert ledger.spent(now=NOW).epsilon == pytest.approx(asked * 1e-6, rel=0.5)
    ledger.settle(ledger.reserve("room again", ask(0.1, "a"), now=NOW), REPORT, now=NOW)


def test_a_file_size_limit_refuses_before_anything_is_asked(tmp_path):
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(1.0, 0.0, 30, composition="sum"), now=NOW)

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (160_000, 160_000))
        return fill_up(url)

    # The answer is written without the limit in the way.
    asked, settled = told(tmp_path / "answer", work)
    after_the_flood(url, asked, settled)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_room_for_a_ledger_is_refused(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * 390_000)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{small_disk}/drift.db")
