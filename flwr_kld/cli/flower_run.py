"""Runs a Flower app by the ``flwr`` command: starts it, follows its log, stops it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from flwr_kld.cli.common import no_budget, print_note
from flwr_kld.cli.flower_app import require_app
from flwr_kld.common.errors import NoBudget, SessionBusy
from flwr_kld.ledger.entry import CheckUnfinished

_STARTED = re.compile(r"started run (\d+)")
_STOP_TIMEOUT = 30.0
_LAST_WORDS = 5.0
"""Seconds to wait for the end of the log: what flwr left behind may hold it open."""
_TERMINATION = 5.0
"""Seconds that ``flwr run`` has to end after a signal."""
_LOOK = "; next: flwr-kld doctor APP CONNECTION"
_SIDE = "│"
_FRAME = f"{_SIDE}╭╮╰╯─ "
"""What the flwr command draws around its errors."""
_ELSEWHERE = tuple(
    f"{error.__module__}.{error.__qualname__}" for error in (CheckUnfinished, SessionBusy)
)
_NO_BUDGET = f"{NoBudget.__module__}.{NoBudget.__qualname__}"
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = ("ServerApp raised an exception", _TRACEBACK)
"""Lines with which Flower begins to say what ended a ServerApp."""
_EXIT = "Exit Code: 201", "For more information"
"""First and last line of what it adds, on which page of its own such errors are explained."""
_LONGEST_TRACEBACK = 1000
"""Lines that are held back at most."""
_REFUSALS = "flwr_kld."
"""Exceptions whose words say what to do begin with it: an operator needs no line of our code."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?$")


@dataclass
class FlowerRun:
    """What is known of a run."""

    # Called with each line of its log; None writes them to standard error
    heard: Callable[[str], None] | None = None
    run: str | None = None  # Flower's id of it, once it has started
    exception: str | None = None  # What broke the ServerApp, if its log says so
    last_words: str = ""  # The end of its log: a line, or all lines of an error in a frame
    exit_code: int | None = None  # Of ``flwr run``; None if it was stopped because it took too long
    _framed: bool = field(default=False, repr=False)

    def hear(self, log: Iterable[str]) -> None:
        """Read a log to its end, and pass it on; of a refusal, without what frames it."""
        held: list[str] = []  # a traceback, until its last line says of what
        explained = False  # whether Flower explains a refusal, which says itself what to do
        for line in log:
            self._keep(line.strip())
            if explained or (self._refused and _EXIT[0] in line):
                explained = _EXIT[1] not in line
                continue
            if self.run is None and (match := _STARTED.search(line)):
                self.run = match[1]
            ends = bool(held) and _EXCEPTION.match(line)
            if ends:
                self.exception = line.strip()
                held = [] if self._refused else held
            is_part = held or any(words in line for words in _RAISED)
            held.append(line)
            if ends or not is_part or len(held) > _LONGEST_TRACEBACK:
                self._pass_on(held)
        self._pass_on(held)

    @property
    def _refused(self) -> bool:
        return self.exception is not None and self.exception.startswith(_REFUSALS)

    def _pass_on(self, lines: list[str]) -> None:
        """Pass lines on, and forget them."""
        for line in lines:
            (self.heard or print_note)(line.rstrip("\n"))
        lines.clear()

    def _keep(self, line: str) -> None:
        """Keep a line as the last words, or add it to them if it goes on in the same frame."""
        if words := line.strip(_FRAME):
            framed = line.startswith(_SIDE)
            goes_on = framed and self._framed
            self.last_words = f"{self.last_words} {words}" if goes_on else words
            self._framed = framed

    @property
    def broke(self) -> bool:
        """Whether an error ended the ServerApp, other than that a check runs elsewhere."""
        return self.exception is not None and not self.exception.startswith(_ELSEWHERE)

    def why(self, timeout: float) -> str | None:
        """Say why it came to no answer, if that is known."""
        if self.exit_code is None:
            ends = f"; its log ends: {self.last_words}" if self.last_words else ""
            return f"the run was stopped after {timeout:g} s{ends}"
        if self.exception is not None:
            kind, _, words = self.exception.partition(": ")
            return (
                no_budget(words)
                if kind == _NO_BUDGET
                else f"the ServerApp failed: {self.exception}"
            )
        if not self.exit_code:
            return None
        return (
            f"flwr run failed with exit code {self.exit_code}: {self.last_words.rstrip('.')}{_LOOK}"
        )


def run_app(
    app: Path,
    connection: str | None,
    config: Sequence[str],
    *,
    timeout: float,
    heard: Callable[[str], None] | None = None,
) -> FlowerRun:
    """Run an app to its end; stop it after `timeout`, and whenever this function is left early."""
    require_app(app)
    command = [_flwr(), "run", str(app), *([connection] if connection else []), "--stream"]
    for override in config:
        command += ["--run-config", override]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C is ours to handle
    )
    found = FlowerRun(heard)
    if process.stdout is None:
        raise RuntimeError("flwr run has no output")
    listener = Thread(target=found.hear, args=(process.stdout,), daemon=True)
    try:
        listener.start()  # in here: a signal may come before it returns
        found.exit_code = process.wait(timeout)
        listener.join(_LAST_WORDS)
    except subprocess.TimeoutExpired:
        pass  # `found` has no exit code
    finally:
        if found.exit_code is None:
            _end(process)
            if listener.is_alive():
                listener.join(_LAST_WORDS)  # the run's id may be the last that it said
            _stop(found.run, connection)
    return found


def _end(process: subprocess.Popen[str]) -> None:
    """End ``flwr run`` itself, which only follows the run."""
    process.terminate()
    try:
        process.wait(_TERMINATION)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop(run: str | None, connection: str | None) -> None:
    """Stop a run on its SuperLink; if that fails too, what it does later is in the ledger."""
    if run is None:
        print_note("flwr has not said that a run started: flwr list shows whether one is running")
        return
    command = [_flwr(), "stop", run, *([connection] if connection else [])]
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # the terminal may be gone, and flwr would end on writing to it
            stderr=subprocess.STDOUT,
            timeout=_STOP_TIMEOUT,
            check=True,
            start_new_session=True,  # a second Ctrl-C must not end it
        )
    except (subprocess.SubprocessError, OSError) as error:
        output = (getattr(error, "stdout", None) or b"").decode(errors="replace")
        print_note(f"{output}run {run} could not be stopped and may still be running")
    else:
        print_note(f"run {run} was stopped")


def _flwr() -> str:
    """Path of the command: as the shell finds it, or beside this Python."""
    beside = Path(sys.executable).parent / "flwr"
    found = shutil.which("flwr") or (str(beside) if beside.is_file() else None)
    if found is None:
        raise RuntimeError("there is no flwr command: pip install flwr")
    return found
