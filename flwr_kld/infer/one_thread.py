"""Runs linear algebra on one thread: a column's products are too small for a second one.

BLAS shares out products of a few hundred numbers a side, and threads that wait for their part spin:
on a busy machine that is more than half of what a wide table costs the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock

from threadpoolctl import ThreadpoolController

_ALONE = RLock()
"""The number of threads is the process's: of two that change it at once, each would restore what
the other has set."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread; others that ask for the same wait meanwhile."""
    with _ALONE, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
