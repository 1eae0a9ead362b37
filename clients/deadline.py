"""Ends a loader that still runs when the server no longer waits for its answer."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from flwr.app import Message

logger = logging.getLogger("flwr_kld")

_AGAIN = 1.0
"""Seconds until a loader that went on regardless is interrupted again."""

_BY: ContextVar[float | None] = ContextVar("deadline", default=None)


class TooLate(Exception):
    """Records did not come before the server stopped waiting."""


def load_by(message: Message) -> None:
    """Give loaders as long as a message lives: from now, as clocks of two machines differ."""
    _BY.set(time.monotonic() + message.metadata.ttl)


@contextmanager
def ended_in_time() -> Iterator[None]:
    """Interrupt what is still running at the message's deadline.

    Only where Python can interrupt anything: in the main thread, as on a SuperNode, whose executor
    would otherwise wait for this process and start no other; not on Windows.

    Raises
    ------
    TooLate
        Out of whatever was running.
    """
    by = _BY.get()
    in_main = threading.current_thread() is threading.main_thread()
    if by is None or not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        logger.error(
            "the loader of records was ended: it had not come back when the server's wait for this "
            "node was over; see what it waits for"
        )
        raise TooLate

    handler = signal.signal(signal.SIGALRM, interrupt)
    left = max(by - time.monotonic(), 1e-3)
    before, again = signal.setitimer(signal.ITIMER_REAL, left, _AGAIN)
    began = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if before:  # another's timer goes on
            rest = max(before - (time.monotonic() - began), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, rest, again)
