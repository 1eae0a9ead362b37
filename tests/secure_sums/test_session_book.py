"""What whoever adds up keeps of a session: no night twice, none after a memory that went back."""

import os
import resource
import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from forks import forked, in_a_fork, joined
from session_nights import TOMORROW, a_night

from flwr_kld import Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.common.errors import QueryRefused, SessionMismatch
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import Held
from flwr_kld.strategies import Trusted
from flwr_kld.trust import session_book
from flwr_kld.trust.session_book import NAME, NightAnswers, SessionBook
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import Terms

REFERENCE = Reference(Labels(["a", "b", "c"]), [0.5, 0.3, 0.2, 0.0, 0.0])
PLAN = Partition().draw(REFERENCE, np.random.default_rng(0))
KEY, SIZE = bytes(range(32)), 12
ANN, BOB = b"a" * NAME, b"b" * NAME
ALL = b"\xff"
"""Behind a name: this client has counted each night of a session of at most seven."""


def terms(
    number: int, released: int | None = None, *, nights: int = 5, session: str = "5e"
) -> Terms:
    released = number - 1 if released is None else released
    night = a_night(session, number, nights, 2, released)
    trust = Standing(Trusted(1.0, 1e-6), nights=nights).on(night)
    return trust.terms(PLAN, check=f"check {number}", asked=2, until=TOMORROW)


@pytest.fixture
def book(tmp_path: Path) -> SessionBook:
    return SessionBook(tmp_path / "standing.db", KEY)


def opened(book: SessionBook, number: int, *about: object, **more: object) -> NightAnswers:
    """Begin a night that five more clients answer, so that others may be silent."""
    night = book.open(terms(number, *about, **more), SIZE)
    for i in range(5):
        assert night.came(bytes([i + 1]) * NAME + ALL, bytes(SIZE), f"loyal {i}")
    return night


def sit(book: SessionBook, number: int, *answers: tuple[bytes, bytes], **about: object) -> dict:
    """Run a night; return the last answers that counted."""
    night = opened(book, number, **about)
    for client, answer in answers:
        assert night.came(client + ALL, answer, client)
    silent = night.silent()
    night.claim(SystemBits())
    return silent


def test_nobody_answers_twice_in_a_night_or_in_another_length(book):
    night = opened(book, 1)
    assert night.came(ANN + ALL, bytes(SIZE), "x")
    assert not night.came(ANN + ALL, bytes([1] * SIZE), "y")
    assert not night.came(BOB + ALL, bytes(SIZE + 1), "z")
    assert "another client" in night.refused["y"]
    assert "length" in night.refused["z"]
    night.silent()
    night.claim(SystemBits())
    assert sit(book, 2) == {ANN: bytes(SIZE)}


def test_rows_lose_the_names_in_front_and_silent_clients_follow(book):
    sit(book, 1, (BOB, bytes([9] * SIZE)))
    night = opened(book, 2)
    held = Held([ANN + ALL + bytes([1] * SIZE), ANN + ALL + bytes([2] * SIZE), b"short"])
    (names, rows), (others, last) = night.read(iter([(["x", "y", "z"], held)]))
    assert names == ["x"]
    assert night.refused.keys() == {"y", "z"}
    assert rows.into(list) == [bytes([1] * SIZE)]
    assert last.into(list) == [bytes([9] * SIZE)]
    assert len(others) == night.carried == 1


def test_who_answers_with_a_copy_of_anothers_memory_counts_as_before(book):
    """Else it would count in the other's place, beside what is carried of itself."""
    first, second = bytes(SIZE), bytes([1] * SIZE)
    sit(book, 1, (ANN, first), (BOB, second))
    for number in (2, 3):
        night = opened(book, number)
        assert not night.came(ANN + ALL, second, BOB)
        assert "memory" in night.refused[BOB]
        assert night.silent() == {ANN: first, BOB: second}
        night.claim(SystemBits())


def test_of_a_memory_and_its_copy_one_answers_from_then_on(book):
    """Records that went with the one would come again with it."""
    first, second = bytes(SIZE), bytes([1] * SIZE)
    sit(book, 1, (ANN, first))
    night = opened(book, 2)
    assert night.came(ANN + ALL, second, "copy")
    night.claim(SystemBits())
    for number in (3, 4):
        night = opened(book, number)
        assert not night.came(ANN + ALL, first, ANN)
        assert "memory" in night.refused[ANN]
        assert not night.came(BOB + ALL, first, ANN)
        assert night.silent() == {ANN: second}
        night.claim(SystemBits())
    assert opened(book, 5).came(ANN + ALL, first, "copy")


@pytest.mark.parametrize("again", [1, 2])
def test_a_night_is_claimed_once(book, again):
    sit(book, 1)
    sit(book, 2)
    with pytest.raises(QueryRefused, match="night 2"):
        book.open(terms(again, 0), SIZE)


def test_a_night_that_was_opened_twice_is_claimed_once(book):
    one, other = book.open(terms(1), SIZE), book.open(terms(1), SIZE)
    one.claim(SystemBits())
    with pytest.raises(QueryRefused, match="AnsweredAlready"):
        other.claim(SystemBits())


def test_a_fork_does_not_release_the_same_night(book):
    night = book.open(terms(1), SIZE)
    night.claim(SystemBits())

    def again() -> bytes:
        try:
            night.claim(SystemBits())
        except QueryRefused:
            return b"refused"
        return b"released"

    assert in_a_fork(again) == b"refused"


def test_a_book_that_was_put_back_refuses_what_it_has_forgotten(book, tmp_path):
    sit(book, 1)
    copy = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name.startswith("standing")}
    sit(book, 2)
    for path in tmp_path.iterdir():
        path.unlink()
    for name, content in copy.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(QueryRefused, match="SessionForgotten"):
        book.open(terms(3, 2), SIZE)


def test_a_book_that_is_gone_refuses_to_go_on(tmp_path):
    book = SessionBook(tmp_path / "new.db", KEY)
    with pytest.raises(QueryRefused, match="SessionForgotten"):
        book.open(terms(3, 2), SIZE)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_night_that_does_not_follow_the_last_one_ends_the_session(book, number):
    """The server's ledger was put back: it asks for nights with other marks."""
    sit(book, 1)
    sit(book, 2)
    other = replace(terms(number), night=a_night("5e", number, 5, released=1, branch=9))
    with pytest.raises(SessionMismatch, match="night 2") as refused:
        book.open(other, SIZE)
    assert refused.value.night == 2


def test_nothing_is_claimed_after_the_last_moment(book, clock):
    night = opened(book, 1)
    clock.seconds = TOMORROW + 1.0
    with pytest.raises(QueryRefused, match="TooLate"):
        night.claim(SystemBits())
    clock.seconds = TOMORROW - 1.0
    assert sit(book, 1) == {}


def test_more_than_half_of_those_asked_answer_a_night_after_the_first_that_failed(book):
    night = book.open(terms(2, released=0), SIZE)
    assert night.came(ANN + ALL, bytes(SIZE), ANN)
    with pytest.raises(QueryRefused, match="TooFewAnswered"):
        night.claim(SystemBits())
    assert night.came(BOB + ALL, bytes(SIZE), BOB)
    night.claim(SystemBits())


def test_nights_may_have_failed_before_they_came_here(book):
    sit(book, 1)
    sit(book, 4, released=1)


def test_other_terms_are_another_session(book):
    sit(book, 1, (ANN, bytes(SIZE)))
    assert sit(book, 1, session="50") == {}
    assert sit(book, 1, nights=6) == {}
    assert sit(book, 2) == {ANN: bytes(SIZE)}


def test_another_key_reads_nothing(book, tmp_path):
    sit(book, 1, (ANN, bytes(SIZE)))
    other = SessionBook(tmp_path / "standing.db", bytes(32))
    with pytest.raises(QueryRefused, match="log"):
        other.open(terms(2), SIZE)


def test_a_book_of_another_version_is_refused_and_left_alone(book, tmp_path):
    """Its seeds and answers would be read as what they are not, or begun anew."""
    sit(book, 1, (ANN, bytes(SIZE)))
    file = tmp_path / "standing.db"
    with closing(sqlite3.connect(file)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version - 1}")
    left = file.read_bytes()
    for number in (1, 2):
        with pytest.raises(QueryRefused, match="log"):
            book.open(terms(number), SIZE)
    assert file.read_bytes() == left
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    assert sit(book, 2) == {ANN: bytes(SIZE)}


def test_last_answers_are_not_those_of_a_night_that_another_process_claimed(book):
    sit(book, 1, (ANN, bytes(SIZE)))
    late = opened(book, 2)
    sit(book, 2)
    with pytest.raises(QueryRefused, match="AnsweredAlready"):
        late.silent()


def test_a_book_without_its_key_goes_on_once_that_is_there(book, tmp_path):
    """It was moved to another machine, where another key is made."""
    sit(book, 1, (ANN, bytes(SIZE)))
    moved = tmp_path / "moved.db"
    shutil.copy(tmp_path / "standing.db", moved)
    with pytest.raises(QueryRefused, match="log"):
        sit(SessionBook(moved, bytes(32)), 2, (ANN, bytes(SIZE)))
    assert sit(SessionBook(moved, KEY), 2) == {ANN: bytes(SIZE)}


@pytest.mark.parametrize("column", ["seeds", "names", "answers"])
def test_a_part_of_a_book_is_not_put_back(book, tmp_path, column):
    sit(book, 1, (ANN, bytes(SIZE)))
    with closing(sqlite3.connect(tmp_path / "standing.db")) as db:
        (old,) = db.execute("SELECT box FROM boxes WHERE what = ?", (column,)).fetchone()
        sit(book, 2, (ANN, bytes([1] * SIZE)))
        db.execute("UPDATE boxes SET box = ? WHERE what = ?", (old, column))
        db.commit()
    with pytest.raises(QueryRefused, match="log"):
        sit(book, 3)


def test_answers_are_kept_that_no_single_value_of_sqlite_could_hold(book, monkeypatch, tmp_path):
    """SQLite takes a thousand million bytes, of 125,000 clients with 1,000 cells; here, few."""
    monkeypatch.setattr(session_book, "_AT_ONCE", 4 * SIZE)
    connect = sqlite3.connect

    def limited(*about, **options):
        db = connect(*about, **options)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        return db

    monkeypatch.setattr(sqlite3, "connect", limited)
    told = [(i.to_bytes(NAME), os.urandom(SIZE)) for i in range(200)]
    sit(book, 1, *told)
    assert sit(book, 2, *told[:107]) == dict(told[107:])
    with closing(connect(tmp_path / "standing.db")) as db:
        db.execute("DELETE FROM boxes WHERE what = 'answers' AND part = 50")
        db.commit()
    with pytest.raises(QueryRefused, match="log"):
        sit(book, 3)


def test_a_night_whose_book_finds_no_room_is_not_released(book, tmp_path):
    """The disk is full: what was kept stays, and the next night goes on from it."""
    sit(book, 1, (ANN, bytes(SIZE)))

    def full() -> bytes:
        size = (tmp_path / "standing.db").stat().st_size
        night = opened(book, 2)
        for i in range(20_000):
            night.came(i.to_bytes(NAME) + ALL, os.urandom(SIZE), i)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            night.claim(SystemBits())
        except QueryRefused as error:
            return str(error).encode()
        return b"released"

    assert b"the operator's log says why" in in_a_fork(full)
    assert sit(book, 2) == {ANN: bytes(SIZE)}


def test_nothing_exact_lies_in_the_file(book, tmp_path):
    answer = b"exact counts"
    sit(book, 1, (ANN, answer))
    for path in tmp_path.iterdir():
        assert answer not in path.read_bytes()
        assert ANN not in path.read_bytes()


def test_the_last_night_leaves_neither_answers_nor_seeds(book, tmp_path):
    """With what was published, seeds tell the counts."""
    sizes = []
    for number in range(1, 6):
        sit(book, number, *((bytes([i]) * NAME, bytes(SIZE)) for i in range(10, 19)))
        with closing(sqlite3.connect(tmp_path / "standing.db")) as db:
            read = "SELECT length(box) FROM boxes WHERE what != 'replaced' ORDER BY what"
            sizes.append(tuple(size for (size,) in db.execute(read)))
    with pytest.raises(ValueError, match="session"):
        a_night("5e", 6, 5, 2, 5)
    assert [size[:2] for size in sizes[1:4]] == [sizes[0][:2]] * 3
    assert all(last < first for first, last in zip(sizes[0], sizes[-1], strict=True))


def test_another_table_makes_no_noise_of_the_same_seeds(book, monkeypatch):
    """As another version would calibrate it: nights so far would have had other noise."""
    sit(book, 1)
    monkeypatch.setattr(session_book, "_digest", lambda table: bytes(32))
    with pytest.raises(QueryRefused, match="log"):
        sit(book, 2)


def test_it_shows_nothing(book):
    night = book.open(terms(1), SIZE)
    night.came(ANN + ALL, b"exact counts", "x")
    for private in (book, night):
        assert "exact" not in repr(private)
        assert not [name for name in dir(private) if name in ("answers", "names")]
    assert isinstance(night, NightAnswers)


def test_terms_of_no_session_are_refused(book):
    with pytest.raises(QueryRefused, match="session"):
        book.open(replace(terms(1), night=None), SIZE)


def test_a_process_that_is_killed_loses_no_night_that_it_released(tmp_path):
    """Killed at any moment, seven times: each later night finds all nights before it."""
    file, released = tmp_path / "standing.db", [0]

    def release(told: int) -> None:
        book = SessionBook(file, KEY)
        for number in range(1, 300):
            try:
                night = book.open(terms(number, 0, nights=300), SIZE)
            except QueryRefused:
                continue
            night.came(ANN + bytes([255] * 38), bytes([number % 256] * SIZE), "x")
            night.silent()
            night.claim(SystemBits())
            os.write(told, f"{number}\n".encode())

    for kill in range(7):
        reading, writing = os.pipe()
        child = forked(partial(release, writing))
        os.close(writing)
        with os.fdopen(reading) as lines:
            for line in lines:
                released.append(int(line))
                if len(released) % 9 == kill:
                    os.kill(child, signal.SIGKILL)
                    break
            released += map(int, lines)
        joined(child)
    assert released == sorted(set(released))
    book = SessionBook(file, KEY)
    with pytest.raises(QueryRefused, match="AnsweredAlready"):
        book.open(terms(released[-1], 0, nights=300), SIZE)
    night = book.open(terms(299, released[-1], nights=300), SIZE)
    # Of the last night, or of one that was claimed and not told.
    told = [{ANN: bytes([n % 256] * SIZE)} for n in (released[-1], released[-1] + 1)]
    assert night.silent() in told
