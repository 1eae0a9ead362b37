"""Where the seconds of a check go: sending messages, waiting for replies, and the rest."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

ASKING, WAITING = "asking", "waiting"


@dataclass(frozen=True)
class Clock:
    """Wall time since a check began, in seconds, and how much of it each phase took."""

    phases: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float), init=False)
    entered: Counter[str] = field(default_factory=Counter, init=False)
    """How often each phase was begun."""
    _began: float = field(default_factory=time.perf_counter, init=False)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the phases in here on this clock."""
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)


_running: ContextVar[Clock | None] = ContextVar("flwr_kld.clock", default=None)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count what happens in here as `ASKING` or as `WAITING`."""
    clock, began = _running.get(), time.perf_counter()
    if clock is not None:
        clock.entered[name] += 1
    yield
    if clock is not None:
        clock.phases[name] += time.perf_counter() - began
