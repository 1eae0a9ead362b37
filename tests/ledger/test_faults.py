"""kill -9 anywhere: what was asked is in the books, nothing is there twice, the next check runs."""

import os
import random
import signal
import time
from collections import Counter

import pytest
import sqlalchemy as sa
from forks import forked, joined
from ledger.books import REPORT, SILENCE, ask, tables
from ledger.conftest import NOW

from flwr_kld.ledger import Ledger
from flwr_kld.ledger.entry import AlreadyChecked, CheckUnfinished, Remembered

EPSILON = 0.001


def check_loop(url, log, keys, die=None):
    """Run the keys in order, as a scheduler would; `die` is called before every step.

    Every other check fails after it asked.
    """
    ledger = Ledger(url)
    if die:
        for happening in ("before_cursor_execute", "commit"):
            sa.event.listen(tables(ledger)._engine, happening, die)
    for key in keys:
        try:
            reservation = ledger.reserve(key, ask(EPSILON, "a", key), now=NOW)
        except (AlreadyChecked, CheckUnfinished):
            continue
        os.write(log, f"asked {key}\n".encode())  # the first message leaves
        if unanswered(key):
            ledger.fail(reservation, SILENCE, now=NOW)
            continue
        if die:
            die()
        seen = ledger.state("detector")
        state = Remembered("detector", [key], 0 if seen is None else seen.version)
        if die:
            die()
        ledger.settle(reservation, {**REPORT, "check": key}, states=[state], now=NOW)
        os.write(log, f"settled {key}\n".encode())


def unanswered(key):
    return int(key[1:]) % 2 == 1


def consistent(url, log):
    """Hold the ledger against what really happened."""
    lines = Counter(log.read_text().split("\n")[:-1])
    assert set(lines.values()) <= {1}, "a check was asked twice"
    asked = {line.split()[1] for line in lines if line.startswith("asked")}
    settled = {line.split()[1] for line in lines if line.startswith("settled")}
    ledger = Ledger(url)
    entries = {entry.key: entry for entry in ledger.history()}
    assert len(entries) == len(list(ledger.history()))
    assert asked <= set(entries), "a check was asked and not recorded"
    for key in settled:
        assert entries[key].state == "settled", "a settled check was lost"
    for key, entry in entries.items():
        assert entry.release is not None
        assert (entry.state == "settled") == (entry.report is not None)
        assert entry.report in (None, {**REPORT, "check": key})
        assert (entry.state == "failed") == (entry.failure is not None)
        assert entry.failure is None or (entry.failure == SILENCE and unanswered(key))
    # Everybody pays for everything that was reserved, to the last digit, and once.
    charged = {key: e.number for key, e in entries.items()}
    assert ledger.spent(now=NOW).epsilon == pytest.approx(EPSILON * len(charged), abs=1e-15)
    last = ledger.last_asked(sorted(entries))
    assert last.tolist() == [charged.get(key, 0) for key in sorted(entries)]
    done = [key for key, entry in entries.items() if entry.state == "settled"]
    remembered = ledger.state("detector")
    assert (remembered.value, remembered.version) == ([done[-1]], len(done)) if done else True
    if url.startswith("sqlite"):
        with tables(ledger).reading() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    return entries


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


def run(url, log, keys, die=None):
    with log.open("ab", buffering=0) as file:
        return forked(lambda: check_loop(url, file.fileno(), keys, die))


def test_kill_at_every_step_of_a_check(url, ledger, log):
    """The process dies at its 1st, 2nd, … step, until one gets through two checks alive."""
    killed, keys = 0, [f"k{i}" for i in range(400)]
    while True:
        steps = iter(range(killed, -1, -1))

        def die(*_, steps=steps):
            if next(steps, 1) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        (code,) = joined(run(url, log, keys[2 * killed : 2 * killed + 2], die))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
        if killed % 10 == 0:
            consistent(url, log)
    states = Counter(entry.state for entry in consistent(url, log).values())
    assert killed >= 50
    assert min(states["settled"], states["reserved"]) > 15


@pytest.mark.parametrize("kills", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_kill_at_random_moments(url, ledger, log, kills):
    """Loops, each killed some milliseconds after it got somewhere."""
    keys, chance = [f"k{i}" for i in range(10_000)], random.Random(4)
    for _ in range(kills):
        before, steps = log.stat().st_size, chance.randint(1, 60)
        pid = run(url, log, keys[len(list(ledger.history())) :])
        while log.stat().st_size < before + steps:  # bytes: at least one step
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGKILL)
        assert joined(pid) == [-signal.SIGKILL]
    entries = consistent(url, log)
    assert len(entries) >= kills
    (code,) = joined(run(url, log, keys[len(entries) : len(entries) + 3]))
    assert code == 0
    assert len(consistent(url, log)) == len(entries) + 3


def test_kill_while_the_schema_is_made(url, log):
    """The tables are made in one transaction: there is all of the schema, or none."""
    for step in range(1, 70, 4):
        steps = iter(range(step, -1, -1))

        def work(steps=steps):
            def die(*_):
                if next(steps, 1) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            sa.event.listen(sa.Engine, "before_cursor_execute", die)
            Ledger(url)

        code = joined(forked(work))[0]
        assert code in (0, -signal.SIGKILL)
    assert list(Ledger(url).history("nobody")) == []
