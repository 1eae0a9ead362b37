"""No room, or no right to write: a sentence; nothing is lost, and nothing is spent twice."""

import json
import os
import re
import resource
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from federation import REFERENCE, grid_of
from forks import in_a_fork
from guard.files import guard_file, question
from ledger.books import REPORT, ask
from ledger.conftest import NOW
from secure_sums.test_session_book import ALL, ANN, KEY, SIZE, opened, sit
from trust.test_session_memory import asked, count

from flwr_kld import Labels, Reference
from flwr_kld.clients import check_memory
from flwr_kld.clients.check_memory import unusable
from flwr_kld.common.durable_files import put_in_place
from flwr_kld.common.errors import LedgerUnavailable, QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger import Budget, Ledger, LedgerError
from flwr_kld.ledger.entry import CheckUnfinished
from flwr_kld.ledger.reservations import Reservation
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.trust.session_book import SessionBook
from flwr_kld.views import CheckSeries

NOBODY = 65534
REPORT_OF_A_CHECK = KLDrift(REFERENCE, Trusted(1.0)).check(grid_of())
FIRST = json.loads(CheckSeries([REPORT_OF_A_CHECK]).to_json())


@dataclass(frozen=True)
class Store:
    """Something on a disk: how it is begun, what is done next, and what has to hold afterwards."""

    begin: Callable[[Path], object]
    act: Callable[[Path], object]  # Fails without room
    after: Callable[[Path], object]  # There is room again


def ledger(folder: Path) -> Ledger:
    return Ledger(f"sqlite:///{folder}/drift.db")


def begin_ledger(folder):
    ledger(folder).set_budget(Budget(1.0, 0.0, 30, composition="sum"), now=NOW)
    ledger(folder).reserve("a", ask(0.5, "a"), now=NOW)


def reserve(folder):
    ledger(folder).reserve("b", ask(0.5, *(f"client {i}" for i in range(9999))), now=NOW)


def after_reserve(folder):
    assert [entry.key for entry in ledger(folder).history()] == ["a"]
    reserve(folder)
    with pytest.raises(CheckUnfinished):
        reserve(folder)
    assert ledger(folder).spent(now=NOW).epsilon == 0.5


def settle(folder):
    held = ledger(folder)
    with held._database.reading() as connection:
        (number,) = connection.exec_driver_sql("SELECT number FROM checks").one()
    reservation = Reservation(number, "default", "a")
    held.settle(reservation, {**REPORT, "long": os.urandom(200_000).hex()}, now=NOW)


def after_settle(folder):
    (entry,) = ledger(folder).history()
    assert (entry.state, entry.report) == ("reserved", None)
    assert ledger(folder).spent(now=NOW).epsilon == 0.5
    settle(folder)
    with pytest.raises(LedgerError, match="closed"):
        settle(folder)
    assert ledger(folder).spent(now=NOW).epsilon == 0.5


def book(folder: Path) -> SessionBook:
    return SessionBook(folder / "standing.db", KEY)


def claim(folder):
    night = opened(book(folder), 3)
    assert night.came(ANN + ALL, os.urandom(SIZE), "ann")
    night.silent()
    night.claim(SystemBits())


def after_claim(folder):
    claim(folder)
    with pytest.raises(QueryRefused, match="AnsweredAlready"):
        claim(folder)


def remember(folder):
    try:
        count(folder / "m.standing", asked(3), {i: i % 4 for i in range(20_000)})
    except (sqlite3.Error, OSError) as error:  # as clients/standing.py does
        raise unusable(folder / "m.standing", error) from None


def after_remember(folder):
    remember(folder)
    with pytest.raises(QueryRefused, match="night 3"):
        remember(folder)


def guard(folder: Path) -> Guard:
    return Guard.from_file(guard_file(folder))


def admit(folder):
    Guard.from_file(folder / "guard.toml").admit(question("full"), "x" * 20_000)


def after_admit(folder):
    assert [r.check for r in verify(folder / "receipts.db").receipts] == ["first"]
    admit(folder)
    with pytest.raises(QueryRefused, match="before"):
        admit(folder)


def answer(folder):
    check_memory._write_down(folder / "claims", "x" * 20_000)


def after_answer(folder):
    answer(folder)
    with pytest.raises(QueryRefused, match="AnsweredAlready"):
        answer(folder)


def save_report(folder, times=400):
    CheckSeries([REPORT_OF_A_CHECK] * times).save(folder / "checks.json")


def after_save_report(folder):
    assert len(json.loads((folder / "checks.json").read_text())) == len(FIRST)
    save_report(folder)


def save_reference(folder, labels=9_999):
    names = [f"label {i}" for i in range(labels)]
    Reference.from_counts(Labels(names), [1] * (labels + 2)).save(folder / "r.json")


def after_save_reference(folder):
    assert len(Reference.load(folder / "r.json").domain.names) == 3
    save_reference(folder)


STORES = {
    "the ledger, to reserve": Store(begin_ledger, reserve, after_reserve),
    "the ledger, to settle": Store(begin_ledger, settle, after_settle),
    "a session's book": Store(
        lambda folder: [sit(book(folder), night) for night in (1, 2)], claim, after_claim
    ),
    "a node's memory of sessions": Store(
        lambda folder: count(folder / "m.standing", asked(2), {1: 1}), remember, after_remember
    ),
    "receipts": Store(
        lambda folder: guard(folder).admit(question("first"), "0"), admit, after_admit
    ),
    "claims": Store(
        lambda folder: check_memory._write_down(folder / "claims", "first"), answer, after_answer
    ),
    "a report": Store(lambda folder: save_report(folder, 1), save_report, after_save_report),
    "a reference": Store(
        lambda folder: save_reference(folder, 3), save_reference, after_save_reference
    ),
}
SENTENCES = {
    LedgerUnavailable: "the ledger .* cannot be",
    QueryRefused: "operator's log says why|cannot write a receipt",
    OSError: "No space left|File too large|Permission denied|Read-only",
}


@contextmanager
def too_small(folder: Path) -> Iterator[None]:
    """No file may grow: as on a disk with a quota."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, 2**14))
    yield


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Neither the folder nor a file in it can be written, by a user who owns both."""
    for path in (folder, *folder.iterdir()):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500 if path.is_dir() else 0o400)
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    yield


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """A file system without a free block."""
    with (folder / "filler").open("wb", buffering=0) as filler:
        for size in (2**16, 2**12, 1):
            with suppress(OSError):
                while filler.write(bytes(size)):
                    pass
    yield


@pytest.fixture
def folder(request) -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "mounted"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
        mounted = request.getfixturevalue("how") is full and (
            shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0
        )
        if request.getfixturevalue("how") is full and not mounted:
            pytest.skip("only root mounts a file system")
        yield folder
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("how", [too_small, read_only, full])
def test_what_cannot_be_written_is_said_and_nothing_is_lost_or_spent_twice(how, store, folder):
    what = STORES[store]
    what.begin(folder)

    def refused() -> bytes:
        try:
            with how(folder):
                what.act(folder)
        except Exception as error:
            return f"{type(error).__name__}: {error}".encode()
        return b"it was written"

    said = in_a_fork(refused).decode()
    kind, _, words = said.partition(": ")
    patterns = {error.__name__: pattern for error, pattern in SENTENCES.items()}
    patterns["PermissionError"] = patterns["OSError"]
    assert re.search(patterns[kind], words), said
    for path in (folder, *folder.iterdir()):
        if os.geteuid() == 0:
            os.chown(path, 0, 0)
        path.chmod(0o700 if path.is_dir() else 0o600)
    (folder / "filler").unlink(missing_ok=True)
    what.after(folder)


def test_a_file_is_never_written_through_a_link_that_was_put_there(tmp_path, monkeypatch):
    other = tmp_path / "others.txt"
    other.write_text("kept")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "ab")
    (tmp_path / ".report.json.ab").symlink_to(other)
    with pytest.raises(FileExistsError):
        put_in_place(tmp_path / "report.json", b"{}")
    assert other.read_text() == "kept"
    assert not (tmp_path / "report.json").exists()
