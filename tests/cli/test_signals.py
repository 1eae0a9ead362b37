"""Signals: what a command started ends with it, and its exit code says which signal it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from threading import Event, Thread

import pytest
from patience import HANGS

from flwr_kld.cli import check as watching
from flwr_kld.cli import flower_run
from flwr_kld.cli.app import exit_on_signals
from flwr_kld.ledger import Ledger
from flwr_kld.simulations import local_superlink, progress

SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]
MID_RUN = "a line of the ServerApp's log"


class Untouched(Exception):
    """A signal came through to the test: the command did not handle it."""


@pytest.fixture(autouse=True)
def safe():
    """Let no signal that a command leaves to its process end the tests."""

    def come_through(number, frame):
        raise Untouched(number)

    before = {number: signal.signal(number, come_through) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def on_line(monkeypatch):
    """Do something in the thread that reads the log, once a line of it comes."""

    def when(words: str, do) -> None:
        def hear(line: str) -> None:
            said.append(line)
            if words in line:
                do()

        monkeypatch.setattr(flower_run, "print_note", hear)

    said: list[str] = []
    when.said = said
    return when


@pytest.fixture
def command(flower_app, monkeypatch):
    """Return the arguments of each command that starts a run."""

    def now(schedule, job, *, stop):
        job(schedule.next_after(datetime(2026, 11, 21, tzinfo=UTC)))

    monkeypatch.setattr(watching, "run_schedule", now)
    return {
        "check": ("check", flower_app, "prod", "--key", "a"),
        "watch": ("watch", flower_app, "prod", "--schedule", "every 1h"),
        "describe": ("describe", flower_app, "prod", "--key", "a"),
    }  # fmt: skip


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", ["check", "describe"])
def test_a_signal_stops_the_run_at_the_superlink_and_the_child(
    cli, flwr, command, on_line, name, number
):
    flwr.will("hang")
    on_line(MID_RUN, lambda: send(number))
    done = cli(*command[name])
    assert done.exit_code == 128 + number
    assert [call[0] for call in flwr.calls] == ["run", "stop"]
    assert flwr.calls[-1] == ["stop", "4711", "prod"]
    assert not flwr.lives
    assert "run 4711 was stopped" in on_line.said
    assert Ledger(flwr.ledger).check("a") is None


def test_a_signal_stops_a_run_whose_log_is_only_just_listened_to(
    cli, flwr, command, on_line, monkeypatch
):
    heard = Event()

    class Starting(Thread):
        def start(self) -> None:
            super().start()
            heard.wait(HANGS)
            send(signal.SIGTERM)

    flwr.will("hang")
    on_line(MID_RUN, heard.set)
    monkeypatch.setattr(flower_run, "Thread", Starting)
    assert cli(*command["check"]).exit_code == 128 + signal.SIGTERM
    assert (flwr.calls[-1], flwr.lives) == (["stop", "4711", "prod"], False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_that_is_told_twice_ends_with_its_run(cli, flwr, command, on_line, number):
    flwr.will("hang")

    def twice() -> None:
        first = signal.getsignal(number)
        send(number)
        while signal.getsignal(number) is first:  # the main thread has not seen it yet
            time.sleep(0.01)
        send(number)

    on_line(MID_RUN, twice)
    assert cli(*command["watch"]).exit_code == 128 + number
    assert (flwr.calls[-1], flwr.lives) == (["stop", "4711", "prod"], False)


def test_before_a_run_has_started_there_is_none_to_stop(cli, flwr, command, on_line):
    flwr.will("hang early")
    on_line("Building", lambda: send(signal.SIGTERM))
    assert cli(*command["check"]).exit_code == 128 + signal.SIGTERM
    assert ([call[0] for call in flwr.calls], flwr.lives) == (["run"], False)
    assert "flwr list shows whether one is running" in on_line.said[-1]


def test_later_signals_do_not_interrupt_the_stopping(cli, flwr, command, on_line, monkeypatch):
    flwr.will("hang")
    on_line(MID_RUN, lambda: send(signal.SIGHUP))
    stop = flower_run._stop

    def impatient(run, connection):
        for number in SIGNALS:
            send(number)
        stop(run, connection)

    monkeypatch.setattr(flower_run, "_stop", impatient)
    assert cli(*command["check"]).exit_code == 128 + signal.SIGHUP
    assert flwr.calls[-1] == ["stop", "4711", "prod"]


def test_what_was_ignored_at_the_start_stays_ignored_and_handlers_come_back():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    before = [signal.getsignal(number) for number in SIGNALS]
    ended = None
    try:
        with exit_on_signals():
            send(signal.SIGHUP)
            send(signal.SIGTERM)
    except SystemExit as end:
        ended = end
    assert ended is not None
    assert ended.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_process_ends_so_on_sigterm(flwr, flower_app, url):
    flwr.will("hang")
    code = "from flwr_kld.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "check", str(flower_app), "--key", "a", "--ledger", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while MID_RUN not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, out) == (143, "")
    assert "run 4711 was stopped" in err
    assert "Traceback" not in err
    assert (flwr.calls[-1], flwr.lives) == (["stop", "4711"], False)


@pytest.fixture
def superlink(monkeypatch):
    """A SuperLink of one's own whose run gets a signal; says what became of it."""
    seen = []

    class Run:
        def poll(self):
            send(signal.SIGTERM)
            seen.append("signal")

        def kill(self):
            seen.append("run killed")

    class SuperLink:
        def run(self, app, *, nodes, config):
            return nullcontext(Run())

    @contextmanager
    def start(log, environment=None):
        try:
            yield SuperLink()
        finally:
            seen.append("SuperLink stopped")

    monkeypatch.setattr(local_superlink, "local_superlink", start)
    monkeypatch.setattr(progress.time, "sleep", lambda seconds: pytest.fail("it went on"))
    return seen


@pytest.mark.parametrize("name", ["simulate", "demo"])
def test_simulations_stop_their_superlink(cli, superlink, tmp_path, name):
    assert cli(name, "--out", tmp_path).exit_code == 143
    assert superlink == ["run killed", "SuperLink stopped"]
