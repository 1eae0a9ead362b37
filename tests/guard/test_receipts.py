"""The chain of receipts: what is spent, what an auditor finds, what two processes can do."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from fractions import Fraction

import pytest
from guard.files import period_of
from patience import HANGS

from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.receipts import SCHEMA, Claim, Receipt, Receipts, ReceiptsTampered
from flwr_kld.ledger.budget import exact
from flwr_kld.secure_sums import Identity

DAY = 86400
NUMBERS = ("number", "time", "epsilon", "delta", "most_records", "until", "night")
TERMS = period_of(30 * DAY, epsilon=10, delta=1)


def spend(check, epsilon=1, account="0", delta=0):
    about = (check, account, "r", "p", "none", "trusted")
    return Claim(*about, Fraction(epsilon), Fraction(delta), "record", 0, 0)


@pytest.fixture
def key():
    return Identity.generate()


@pytest.fixture
def file(tmp_path, key):
    return Receipts(tmp_path / "receipts.db", key)


@pytest.fixture
def chain(tmp_path, file):
    """A file of five receipts."""
    for i in range(5):
        file.reserve(spend(f"c{i}", account=str(i % 2)), 1000.0 + i, TERMS)
    return tmp_path / "receipts.db"


def alter(path, *statements):
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0
        SCHEMA.sum_up(db)  # whoever can write the file can do that, too


def test_receipts_verify_and_say_what_was_asked(chain, key):
    audit = verify(chain, key.public)
    assert [r.check for r in audit.receipts] == ["c0", "c1", "c2", "c3", "c4"]
    assert [r.time for r in audit.receipts] == [1000, 1001, 1002, 1003, 1004]
    assert audit.head == audit.receipts[-1].digest
    assert audit.public == key.public
    assert verify(chain).head == verify(chain, head=audit.receipts[2].digest).head


def test_the_file_is_for_its_owner_and_holds_no_floats(chain):
    assert chain.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(chain)) as db:
        for table in ("receipts", "head"):
            for row in db.execute(f"SELECT * FROM {table}"):
                assert {type(value) for value in row} <= {int, str, bytes}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE receipts SET epsilon = 0 WHERE number = 2", "receipt 2 was changed"),
        ("DELETE FROM receipts WHERE number = 1", "receipt 1 is missing"),
        ("DELETE FROM receipts WHERE number = 3", "receipt 3 is missing"),
        ("DELETE FROM receipts WHERE number = 5", "missing at the end"),
        ("DELETE FROM receipts", "missing at the end"),
        ("DELETE FROM head", "the signed end of the chain is missing"),
        ("UPDATE head SET number = 4", "the signed end of the chain was changed"),
        ("UPDATE head SET public = x'00'", "the public key is not readable"),
        ("UPDATE receipts SET signature = 'text' WHERE number = 2", "receipt 2 was changed"),
        ("UPDATE receipts SET previous = '' WHERE number = 1", "receipt 1 was changed"),
        (
            "UPDATE receipts SET signature = (SELECT signature FROM receipts WHERE number = 3) "
            "WHERE number = 2",
            "receipt 2 was changed",
        ),
    ],
)
def test_an_auditor_finds_what_was_tampered_with(chain, statement, message):
    alter(chain, statement)
    with pytest.raises(ReceiptsTampered, match=message):
        verify(chain)


@pytest.mark.parametrize("field", [entry.name for entry in fields(Receipt)])
def test_an_auditor_finds_a_change_of_any_field(chain, field):
    value = "x'00'" if field == "signature" else "77" if field in NUMBERS else "'other'"
    alter(chain, f'UPDATE receipts SET "{field}" = {value} WHERE number = 5')
    with pytest.raises(ReceiptsTampered, match=r"receipt (5|77)"):
        verify(chain)


def test_an_auditor_finds_two_rows_that_changed_places(chain):
    alter(
        chain,
        "UPDATE receipts SET number = 9 WHERE number = 2",
        "UPDATE receipts SET number = 2 WHERE number = 3",
        "UPDATE receipts SET number = 3 WHERE number = 9",
    )
    with pytest.raises(ReceiptsTampered, match="receipt 2"):
        verify(chain)


def test_an_auditor_finds_a_chain_written_anew(tmp_path, chain, key):
    head = verify(chain).head
    other = Receipts(tmp_path / "other.db", Identity.generate())
    other.reserve(spend("c0"), 1000.0, TERMS)
    with pytest.raises(ReceiptsTampered, match="key"):
        verify(tmp_path / "other.db", key.public)
    again = Receipts(tmp_path / "again.db", key)
    again.reserve(spend("c0"), 1000.0, TERMS)
    verify(tmp_path / "again.db", key.public)
    with pytest.raises(ReceiptsTampered, match="missing"):
        verify(tmp_path / "again.db", key.public, head=head)


def test_an_auditor_finds_a_receipt_of_an_earlier_time(chain, file, monkeypatch):
    """Signed by the node itself, whose clock would have freed what was spent."""
    append = Receipts._append
    monkeypatch.setattr(
        Receipts, "_append", lambda file, db, end, claim, now: append(file, db, end, claim, now - 9)
    )
    file.reserve(spend("c5"), 1005.0, TERMS)
    with pytest.raises(ReceiptsTampered, match="receipt 6"):
        verify(chain)


def test_a_file_of_no_receipts_yet_is_whole(tmp_path, file, key):
    """The first check was refused for its price, or the node killed, after the file was made."""
    path = tmp_path / "receipts.db"
    with pytest.raises(QueryRefused, match="left"):
        file.reserve(spend("too dear", epsilon=11), 1000.0, TERMS)
    empty = verify(path, key.public)
    assert empty.receipts == ()
    file.reserve(spend("c0"), 1000.0, TERMS)
    assert [r.check for r in verify(path, key.public, head=empty.head).receipts] == ["c0"]
    with pytest.raises(ReceiptsTampered, match="key"):
        verify(path, Identity.generate().public)


def test_a_file_that_was_emptied_is_not_a_new_one(chain, file):
    alter(chain, "DELETE FROM receipts", "DELETE FROM head")
    with pytest.raises(ReceiptsTampered, match="missing"):
        verify(chain)
    with pytest.raises(QueryRefused, match="whole"):
        file.reserve(spend("new"), 2000.0, TERMS)


def test_an_auditor_makes_no_file(tmp_path):
    with pytest.raises(sqlite3.OperationalError):
        verify(tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM receipts WHERE number = 5",
        "DELETE FROM receipts",
        "DELETE FROM head",
        "UPDATE receipts SET epsilon = 0 WHERE number = 5",
        "UPDATE receipts SET trust = x'00' WHERE number = 5",
        "UPDATE receipts SET signature = 'none' WHERE number = 5",
        "UPDATE head SET signature = x'00'",
    ],
)
def test_a_node_does_not_go_on_from_a_broken_end(chain, file, statement):
    alter(chain, statement)
    with pytest.raises(QueryRefused, match="whole"):
        file.reserve(spend("new"), 2000.0, TERMS)


def test_a_node_with_another_key_does_not_go_on(chain):
    with pytest.raises(QueryRefused, match="key"):
        Receipts(chain, Identity.generate()).reserve(spend("new"), 2000.0, TERMS)


# ------------------------------------------------------------------------- the budget


def test_a_check_spends_once_for_each_account(file):
    file.reserve(spend("c"), 0.0, TERMS)
    with pytest.raises(QueryRefused, match="before"):
        file.reserve(spend("c"), 10.0**9, TERMS)
    file.reserve(spend("c", account="1"), 0.0, TERMS)


def test_the_budget_is_exact_and_says_what_is_left(file):
    limits = period_of(30 * DAY, epsilon=1, delta=1)
    file.reserve(spend("a", Fraction("0.6")), 0.0, limits)
    with pytest.raises(QueryRefused, match=r"left: 0\.4"):
        file.reserve(spend("b", Fraction("0.5")), 0.0, limits)
    file.reserve(spend("b", Fraction("0.4")), 0.0, limits)
    with pytest.raises(QueryRefused, match="left: 0"):
        file.reserve(spend("c", 1), 0.0, limits)


def test_delta_has_a_budget_too(file):
    for check in "abcd":
        file.reserve(spend(check, delta=Fraction(1, 4)), 0.0, TERMS)
    with pytest.raises(QueryRefused, match="delta 1e-18"):
        file.reserve(spend("e", delta=Fraction(1, 10**18)), 0.0, TERMS)


def test_a_clock_that_goes_backwards_frees_nothing(file):
    now = 100 * DAY
    file.reserve(spend("a", 10), now, TERMS)
    for wrong in (0.0, now - 31 * DAY, -1.0):
        with pytest.raises(QueryRefused, match="left: 0"):
            file.reserve(spend("b"), wrong, TERMS)
    other = file.reserve(spend("b", account="1"), 0.0, TERMS)
    assert other.time == now


@pytest.mark.parametrize("clock", [float("inf"), float("nan"), 1e30])
def test_a_clock_that_shows_no_time_spends_nothing(chain, file, clock):
    before = verify(chain)
    with pytest.raises(ValueError, match="clock"):
        file.reserve(spend("new"), clock, TERMS)
    assert verify(chain) == before


def test_a_refused_spend_leaves_no_trace(chain, file):
    before = verify(chain)
    with pytest.raises(QueryRefused):
        file.reserve(spend("new", 10**6), 2000.0, TERMS)
    assert verify(chain) == before


def test_amounts_that_are_no_integers_are_refused_by_the_file(file):
    with pytest.raises(sqlite3.IntegrityError):
        file.reserve(replace(spend("a"), most_records=0.5), 0.0, TERMS)


# ------------------------------------------------------------------------- several at once


def try_all(file, checks):
    won = 0
    for check in checks:
        try:
            file.reserve(spend(check), 0.0, TERMS)
            won += 1
        except QueryRefused:
            pass
    return won


def test_threads_do_not_overspend(tmp_path, key):
    path = tmp_path / "receipts.db"

    def run(i):
        return try_all(Receipts(path, key), [f"{i}-{j}" for j in range(5)])

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(run, range(8))) == 10
    assert len(verify(path, key.public).receipts) == 10


def test_threads_do_not_answer_one_check_twice(tmp_path, key):
    path = tmp_path / "receipts.db"
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: try_all(Receipts(path, key), ["same"]), range(8))) == 1


PROCESS = """
import sys
from pathlib import Path
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard.guard import Guard
sys.path.insert(0, sys.argv[3])
from guard.files import question
guard, won = Guard.from_file(sys.argv[1]), 0
for i in range(20):
    try:
        guard.admit(question(f"{sys.argv[2]}-{i}", epsilon=0.25), "0")
        won += 1
    except QueryRefused:
        pass
print(won)
"""


def test_processes_do_not_overspend(tmp_path, request):
    """Three processes make key and file at the same time, and share 3 nats in quarters."""
    from guard.files import guard_file

    tests = str(request.config.rootpath / "tests")
    command = [sys.executable, "-c", PROCESS, str(guard_file(tmp_path))]
    running = [
        subprocess.Popen([*command, str(i), tests], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    assert sum(int(process.communicate(timeout=HANGS)[0]) for process in running) == 12
    assert len(verify(tmp_path / "receipts.db").receipts) == 12


def test_three_thirds_of_a_period_fit_and_not_a_hair_more(tmp_path, key):
    """Each time in a file that is opened anew, as by a process of its own."""
    limits = period_of(30 * DAY, epsilon=1, delta=Fraction("1e-6"))
    for night in range(3):
        asked = spend(f"{night}", exact(1 / 3), delta=exact(1e-6 / 3))
        Receipts(tmp_path / "receipts.db", key).reserve(asked, 0.0, limits)
    for epsilon, delta in ((Fraction(1, 10**15), 0), (0, Fraction(1, 10**30))):
        with pytest.raises(QueryRefused, match="left"):
            Receipts(tmp_path / "receipts.db", key).reserve(
                spend("more", epsilon, delta=delta), 0.0, limits
            )
    assert sum(r.epsilon for r in verify(tmp_path / "receipts.db").receipts) == 1
