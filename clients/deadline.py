"""Ends a loader that still runs when the server no longer waits for its answer."""

from __future__ import annotations

import functools
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import ParamSpec, TypeVar

from flwr.app import Message

logger = logging.getLogger("flwr_kld")

_AGAIN = 1.0
"""Seconds until a loader that went on regardless is interrupted again."""
_LATE = 1e-3
"""Seconds that a loader has which begins after the deadline."""
_LONGEST = 30 * 86400.0
"""Seconds that a server may claim to wait: a timer takes no more than so many."""

P = ParamSpec("P")
R = TypeVar("R")


class TooLate(Exception):
    """Records did not come before the server stopped waiting."""


class _Deadline:
    """Until when loaders may run for the message in hand, and, in a ``with``, that one does."""

    def __init__(self, seconds: float) -> None:
        self.by, self.loading = time.monotonic() + seconds, False

    def interrupt(self, _: int, __: FrameType | None) -> None:
        """Interrupt the loader; what this package itself does is never interrupted."""
        if not self.loading:
            return
        logger.error(
            "the loader of records was ended: it had not come back when the server's wait for this "
            "node was over; see what it waits for"
        )
        raise TooLate

    def __enter__(self) -> None:
        self.loading = True
        if time.monotonic() > self.by:
            signal.setitimer(signal.ITIMER_REAL, _LATE, _AGAIN)

    def __exit__(self, *_: object) -> None:
        self.loading = False


_NONE = nullcontext()
_DEADLINE: ContextVar[AbstractContextManager[None]] = ContextVar("deadline", default=_NONE)


def loads_in_time(answer: Callable[P, R]) -> Callable[P, R]:
    """Decorate what answers a message: its loaders have as long as the message lives, from now.

    The clocks of two machines may differ.
    """

    @functools.wraps(answer)
    def answer_in_time(*args: P.args, **kwargs: P.kwargs) -> R:
        (message,) = (one for one in args if isinstance(one, Message))
        with _timer(message.metadata.ttl):
            return answer(*args, **kwargs)

    return answer_in_time


@contextmanager
def _timer(seconds: float) -> Iterator[None]:
    # Only where Python can interrupt anything: in the main thread, as on a SuperNode, whose
    # executor would otherwise wait for this process and start no other; not on Windows.
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer"):
        yield
        return
    seconds = min(max(_LATE, seconds), _LONGEST)
    deadline, began = _Deadline(seconds), time.monotonic()
    handler = signal.signal(signal.SIGALRM, deadline.interrupt)
    before, again = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        _DEADLINE.reset(token)
        if before:  # another's timer goes on
            rest = max(before - (time.monotonic() - began), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, rest, again)


def ended_in_time() -> AbstractContextManager[None]:
    """Interrupt what is still running at the message's deadline: ``with ended_in_time():``.

    Raises `TooLate` out of whatever was running.
    """
    return _DEADLINE.get()
