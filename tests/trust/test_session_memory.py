"""A client's memory of its sessions: one lifetime a record, whatever servers or kills do."""

import json
import os
import shutil
import signal
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from forks import forked, joined
from guard.files import question
from session_nights import a_night

from flwr_kld.common.durable_files import Damaged
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.vector import Held
from flwr_kld.trust.session_memory import remembering

NIGHTS, DAY = 9, 24 * 60 * 60


def asked(number, session="s", **changes):
    night = a_night(session, number, NIGHTS, changes.pop("moves", 2))
    return question(f"{session}-{number}", delta=1e-6, night=night, **changes)


def count(path, terms, records, client=0, answered=0, now=0.0, node=""):
    """Ask for a night; return the client's name and what is counted, in order."""
    ids, symbols = np.array([*records], np.uint64), np.array([*records.values()], int)
    with remembering(path, terms, node, now) as memory:
        if (why := memory.refusal(client, answered)) is not None:
            raise QueryRefused(why)
        (token,), counted, _ = memory.count([client], Held([ids]), Held([symbols]))
    return token[:16], sorted(counted.into(lambda own: own[0].ravel().tolist()))


@pytest.fixture
def path(tmp_path):
    """The memory of a client that counted records 1 and 2 on night 3 of session s."""
    assert count(tmp_path / "m.db", asked(3), {1: 10, 2: 20})[1] == [10, 20]
    return tmp_path / "m.db"


def test_a_record_is_counted_as_it_was_on_its_first_night_and_never_again_once_it_is_gone(path):
    assert count(path, asked(4), {1: 11, 3: 30})[1] == [10, 30]
    assert count(path, asked(8), {1: 10, 2: 20, 3: 31})[1] == [10, 30]


def test_a_record_may_change_where_the_session_says_so(tmp_path):
    for night, expected in ((1, 10), (2, 11), (3, 11)):
        terms = asked(night, moves=4)
        assert count(tmp_path / "m.db", terms, {1: 9 + night})[1] == [expected]


REFUSED = {
    "the same night": (asked(3), {}, "has counted night 3"),
    "an earlier night": (asked(1), {}, "has counted night 3"),
    "other cells": (asked(4, cells=[5]), {}, "asks the same"),
    "another plan": (asked(4, plan="a" * 64), {}, "asks the same"),
    "a larger epsilon": (asked(4, epsilon=0.5), {}, "asks the same"),
    "more moves": (asked(4, moves=4), {}, "asks the same"),
    "more nights": (
        replace(asked(4), night=a_night("s", 4, NIGHTS + 1, 2)), {}, "asks the same",
    ),
    "receipts of later nights than it knows": (asked(5), {"answered": 4}, "lost its memory"),
    "receipts of a session that it does not know": (
        asked(5, session="t"), {"answered": 4}, "lost its memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", REFUSED)
def test_a_night_that_does_not_follow_is_refused_and_leaves_no_trace(path, lie):
    terms, more, why = REFUSED[lie]
    for _ in range(2):
        with pytest.raises(QueryRefused, match=why) as refused:
            count(path, terms, {1: 77, 4: 77}, **more)
        assert "77" not in str(refused.value)
    assert count(path, asked(4), {1: 77, 2: 77}, answered=3)[1] == [10, 20]


def test_no_night_is_behind_the_last():
    with pytest.raises(ValueError, match="number"):
        asked(NIGHTS + 1)


def test_terms_of_no_night_are_refused(path):
    with pytest.raises(QueryRefused, match="night"):
        count(path, question(), {1: 10})


def test_who_adds_up_may_differ_in_what_it_says_of_the_night(path):
    told = asked(5)
    told = replace(told, asked=99, night=replace(told.night, released=4))
    assert count(path, told, {1: 10})[1] == [10]


def test_sessions_nodes_and_clients_know_nothing_of_each_other(path):
    name = count(path, asked(4), {1: 11})[0]
    assert count(path, asked(5), {1: 11})[0] == name
    for other in (
        {"terms": asked(1, session="t")},
        {"terms": asked(1), "client": 1},
        {"terms": asked(1), "node": "1"},
    ):
        own, counted = count(path, records={1: 11, 2: 21}, **other)
        assert own != name
        assert counted == [11, 21]


def test_a_memory_that_was_put_back_is_found_out_by_the_receipts(path):
    """To any night: what a receipt is of has been in the memory before."""
    for night in (4, 5, 6):
        shutil.copy(path, path.with_name(f"{night}.db"))
        count(path, asked(night), {1: 10, night: 40})
    for night in (4, 5, 6):
        with pytest.raises(QueryRefused, match="memory"):
            count(path.with_name(f"{night}.db"), asked(7), {1: 10}, answered=6)
    assert count(path, asked(7), {1: 10}, answered=6)[1] == [10]


def test_a_token_says_which_nights_a_client_has_counted(path):
    for number, nights in ((4, 0b11001), (9, 0b1000011001)):
        with remembering(path, asked(number), "", 0.0) as memory:
            (token,), *_ = memory.count([0], Held([np.empty(0, np.uint64)]), Held([np.empty(0)]))
        assert token[16:] == nights.to_bytes(2, "little")


def test_a_finished_session_leaves_nothing_of_its_records(path):
    count(path, asked(NIGHTS), {1: 10, 2: 20})
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT ids || symbols || changes || gone FROM sessions").fetchall()
        assert rows == [("",)]
    with pytest.raises(QueryRefused, match=f"night {NIGHTS}"):
        count(path, asked(NIGHTS), {1: 10})


@pytest.fixture
def connect_as(monkeypatch):
    """Open what is opened with SQLite from then on as connections of another class."""
    connect = sqlite3.connect
    return lambda kind: monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=kind))


class Careless(sqlite3.Connection):
    """As SQLite is, unless it is built or told otherwise."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.execute("PRAGMA secure_delete = OFF")


def test_what_is_forgotten_is_not_left_in_the_file(tmp_path, connect_as):
    connect_as(Careless)
    records = {2**60 + own: own % 3 for own in range(20_000)}
    for night in (1, NIGHTS):
        count(tmp_path / "m.db", asked(night), records)
    (content,) = [file.read_bytes() for file in tmp_path.iterdir()]
    assert not [own for own in [*records][::999] if own.to_bytes(8, "little") in content]


def test_a_forgotten_session_is_not_taken_for_a_new_one(path):
    assert count(path, asked(4), {1: 11}, now=400 * DAY)[1] == [10]
    count(path, asked(1, session="t"), {5: 50}, now=401 * DAY)
    count(path, asked(2, session="t"), {5: 50}, now=801 * DAY)
    with pytest.raises(QueryRefused, match="memory"):
        count(path, asked(5), {1: 11}, now=801 * DAY)
    assert count(path, asked(3, session="t"), {5: 51}, now=801 * DAY)[1] == [50]


def test_what_one_client_is_refused_the_others_of_a_node_are_not(path):
    assert count(path, asked(3), {7: 70}, client=1)[1] == [70]
    with pytest.raises(QueryRefused):
        count(path, asked(3), {7: 70})
    with pytest.raises(QueryRefused):
        count(path, asked(3), {7: 70}, client=1)


def test_clients_are_counted_together_as_each_is_by_itself(tmp_path):
    nights = [
        {0: {1: 10, 2: 20}, 5: {2: 21, 1: 11}, 3: {}},
        {5: {1: 12, 3: 30}, 7: {1: 70}},
        {7: {1: 71}, 0: {2: 20, 4: 40}, 3: {9: 90}, 5: {2: 22, 3: 31}},
    ]
    names = {}
    for number, clients in enumerate(nights, 1):
        ids = [np.array([*own], np.uint64) for own in clients.values()]
        symbols = [np.array([*own.values()], int) for own in clients.values()]
        with remembering(tmp_path / "together.db", asked(number, moves=4), "", 0.0) as memory:
            own, counted, _ = memory.count([*clients], Held(ids), Held(symbols))
        for client, token, rows in zip(clients, own, counted.into(list), strict=True):
            alone = tmp_path / f"{client}.db"
            expected = count(alone, asked(number, moves=4), clients[client], client)[1]
            assert sorted(rows.ravel().tolist()) == expected
            assert names.setdefault(client, token[:16]) == token[:16]
    assert len(set(names.values())) == 4


def test_on_the_last_night_who_has_not_been_asked_yet_keeps_its_lives(path):
    count(path, asked(3), {7: 70}, client=1)
    count(path, asked(NIGHTS), {1: 10, 2: 20})
    assert count(path, asked(NIGHTS), {7: 71, 8: 80}, client=1)[1] == [70, 80]


def test_a_night_that_fails_to_be_written_is_not_counted(path):
    def fail():
        with remembering(path, asked(4), "", 0.0) as memory:
            memory.count([0], Held([np.array([1], np.uint64)]), Held([np.array([1])]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert count(path, asked(4), {1: 1, 2: 2})[1] == [10, 20]


def test_the_file_is_for_its_owner(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_file_is_not_begun_anew(path):
    path.write_bytes(b"")
    with pytest.raises(Damaged):
        count(path, asked(4), {1: 10})


# ------------------------------------------------------------------------- several at once


def test_a_file_that_is_only_read_counts_no_night(path):
    made = path.read_bytes()
    path.write_bytes(made[:18] + b"\x03" + made[19:])  # SQLite: of a version that only reads
    with pytest.raises(sqlite3.Error):
        count(path, asked(4), {3: 30})
    path.write_bytes(made)
    assert count(path, asked(5), {1: 11})[1] == [10]


def test_a_clock_that_runs_backwards_forgets_nothing(path):
    assert count(path, asked(4), {1: 11, 3: 30}, now=300.0 * DAY)[1] == [10, 30]
    assert count(path, asked(5), {1: 11, 2: 20, 3: 31}, now=0.0)[1] == [10, 30]


def test_a_night_on_a_clock_that_is_years_behind_loses_no_session(tmp_path):
    """As a machine has that starts without a battery, before it is told the time."""
    path, now = tmp_path / "m.db", 20_000.0 * DAY
    for night, clock in ((1, 0.0), (2, now), (3, 0.0), (4, now + DAY)):
        for session in ("a", "b") if night > 1 else ("a",):
            assert count(path, asked(night, session=session), {1: night}, now=clock)[1]


def test_of_threads_one_counts_a_night(path):
    def won(_) -> bool:
        try:
            return bool(count(path, asked(4), {1: 10}))
        except QueryRefused:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(won, range(8))) == 1


def test_of_forks_one_counts_a_night(path):
    terms = asked(4)
    children = [forked(lambda: count(path, terms, {1: 10})) for _ in range(4)]
    assert sorted(joined(*children)) == [0, 1, 1, 1]


def records_of(night: int, of: int = 50) -> dict[int, int]:
    """A tenth is replaced nightly, all change nightly."""
    first = night * of // 10
    return {own: own + 10_000 * night for own in range(first, first + of)}


def counted_of(nights, of: int = 50) -> list[int]:
    """What is counted on the last of some nights, each record with two rows at most."""
    last = {}
    for night in nights:
        tonight = records_of(night, of)
        last = {own: [*last.get(own, []), row][:2] for own, row in tonight.items()}
    return sorted(rows[-1] for rows in last.values())


def night_of(path, number, of: int = 50) -> list[int]:
    return count(path, asked(number, moves=4), records_of(number, of))[1]


class Dying(sqlite3.Connection):
    """Kills the process at a call of its, before or after it."""

    at, calls = 0, 0

    def _do(self, call, *given):
        Dying.calls += 1
        if Dying.calls == Dying.at:
            os.kill(os.getpid(), signal.SIGKILL)
        done = call(*given)
        if Dying.calls == -Dying.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def execute(self, *given):
        return self._do(super().execute, *given)

    def __exit__(self, *given):
        return self._do(super().__exit__, *given)


def test_a_process_that_is_killed_leaves_the_night_before_or_after(tmp_path, connect_as):
    night_of(tmp_path / "m.db", 1)
    night_of(tmp_path / "m.db", 2)
    over, at = 0, 0
    for at in (sign * call for call in range(1, 99) for sign in (1, -1)):
        path = tmp_path / f"{at}.db"
        shutil.copy(tmp_path / "m.db", path)

        def killed(at=at, path=path):
            connect_as(Dying)
            Dying.at = at
            night_of(path, 3)

        code = joined(forked(killed))
        if code == [0]:  # it has no such call
            break
        assert code == [-signal.SIGKILL]
        try:
            assert night_of(path, 3) == counted_of((1, 2, 3))
        except QueryRefused:
            over += 1
        assert night_of(path, 4) == counted_of((1, 2, 3, 4))
    assert at > 9
    assert over  # killed after it was written, before anything was answered


def test_a_process_that_is_killed_at_any_time_goes_on_with_the_next_night(tmp_path):
    """Large files, so that a kill comes while one is written."""
    of, random = 30_000, np.random.default_rng(7)
    for i, delay in enumerate(random.uniform(0, 0.1, 8)):
        path = tmp_path / f"{i}.db"
        night_of(path, 1, of)
        child = forked(lambda path=path: [night_of(path, night, of) for night in range(2, NIGHTS)])
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        joined(child)
        with closing(sqlite3.connect(path)) as db:
            ((_, counted, *_),) = json.loads(
                db.execute("SELECT clients FROM sessions").fetchone()[0]
            )
        last = counted.bit_length() - 1
        with pytest.raises(QueryRefused, match=f"night {last}"):
            night_of(path, last, of)
        assert night_of(path, NIGHTS, of) == counted_of((*range(1, last + 1), NIGHTS), of)
