"""How a loop is asked to end: by a signal or by another thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType


class Stop:
    """A request to stop that wakes whoever waits.

    It takes the place of `threading.Event`, whose lock a signal handler could find taken by the
    very thread that it interrupts; ``SimpleQueue.put`` may be called from a handler.
    """

    def __init__(self) -> None:
        self.asked = False
        """Whether it was asked for."""
        self._wake: SimpleQueue[None] = SimpleQueue()

    def ask(self) -> None:
        """Ask for it."""
        self.asked = True
        self._wake.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for it, `seconds` at most; say whether it was asked for."""
        if not self.asked:
            with suppress(Empty):
                self._wake.get(timeout=seconds)
        return self.asked


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the first SIGTERM or SIGINT into a `Stop`; a second one ends the process as usual.

    Only in the main thread, as Python's signals are.
    """
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        restore()
        stop.ask()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()
