"""One night of a session at a time: the lock is its process's own, and ends with it."""

import os
import signal
import threading
import time

import pytest
from forks import forked, joined

from flwr_kld.common.errors import LedgerUnavailable, SessionBusy
from flwr_kld.ledger import Ledger

NAME = "default/session/standing"


def test_the_second_is_refused_until_the_first_has_ended(url, ledger):
    other = Ledger(url)
    with ledger.running(NAME):
        for second in (ledger, other):
            with pytest.raises(SessionBusy, match=NAME), second.running(NAME):
                pytest.fail("two at once")
        with other.running("default/session/another"):
            pass
        other.set_budget(ledger.budget())  # others go on to write
    with other.running(NAME), pytest.raises(SessionBusy), ledger.running(NAME):
        pass


def test_a_thread_is_refused_as_a_process_is(url, ledger):
    found = []

    def second():
        try:
            with ledger.running(NAME):
                found.append("ran")
        except SessionBusy:
            found.append("busy")

    def once(work):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with ledger.running(NAME):
        once(second)
        assert joined(forked(second)) == [0]
        once(second)  # a process that was refused has not taken the lock along
    once(second)
    assert found == ["busy", "busy", "ran"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies_holds_nothing(url, ledger, tmp_path, how):
    """Nor do its children; but a forked one shares its connection to PostgreSQL."""
    begun, lives = tmp_path / "begun", 60 if url.startswith("sqlite") else 0

    def hold():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Ledger(url).running(NAME):
            child = forked(lambda: time.sleep(lives))
            begun.write_text(str(child))
            os.rename(begun, begun.with_suffix(".whole"))
            time.sleep(60)

    first = forked(hold)
    while not (whole := begun.with_suffix(".whole")).exists():
        time.sleep(0.01)
    with pytest.raises(SessionBusy), ledger.running(NAME):
        pass
    os.kill(first, how)
    assert joined(first) == [-how]
    try:
        until = time.monotonic() + 5  # PostgreSQL has to notice that the connection is closed
        while True:
            try:
                with ledger.running(NAME):
                    break
            except SessionBusy:
                if time.monotonic() > until or url.startswith("sqlite"):
                    raise
                time.sleep(0.05)
    finally:
        os.kill(int(whole.read_text()), signal.SIGKILL)


def test_what_the_night_raises_is_not_taken_for_the_ledgers(url, ledger):
    with pytest.raises(OSError, match="mine"), ledger.running(NAME):
        raise OSError("mine")
    with ledger.running(NAME):
        pass


def test_a_lock_that_cannot_be_made_is_said(url, ledger, monkeypatch):
    if not url.startswith("sqlite"):
        pytest.skip("a file")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flwr_kld.ledger.database.make", full)
    with pytest.raises(LedgerUnavailable, match="space"), ledger.running(NAME):
        pass
