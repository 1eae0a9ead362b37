"""How a command ends on a signal: what it started ends first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = [n for n in signal.Signals if n.name in ("SIGHUP", "SIGINT", "SIGTERM")]
"""Signals that end a command; Windows has no SIGHUP."""


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn the first SIGHUP, SIGINT or SIGTERM into ``SystemExit``, with 128 + its number.

    By default SIGHUP and SIGTERM end a process without running its ``finally`` blocks, which stop
    the runs and child processes of a command. Later signals have no effect, for nothing may
    interrupt those blocks; they take a minute at most. A signal that the process was started
    to ignore, as under ``nohup``, stays ignored.

    Only in the main thread, as Python's signals are.
    """
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        if not ending:
            ending = True
            raise SystemExit(128 + number)

    before = {n: signal.getsignal(n) for n in _ENDING}
    ours = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
