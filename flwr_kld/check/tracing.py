"""Spans of a check's phases: their seconds for its report, and all of them for OpenTelemetry.

Spans go wherever the application sends its traces; without the extra ``otel``, nowhere. What they
carry is public before anybody is asked, or in the report: no count, and no error's text.

    flwr_kld.check            key, population, kind
      flwr_kld.choose         who is there, and who is asked
      flwr_kld.reserve        the ledger
      flwr_kld.ask            the cohort's answers, and what is made of them
        flwr_kld.publish      one exchange: clients asked
          flwr_kld.asking     messages go out, in any phase that asks
          flwr_kld.waiting    until the next replies are there
        flwr_kld.conclude     estimates, and the decision's outcome
      flwr_kld.settle         the ledger
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from flwr_kld._extras import require


def _api() -> ModuleType | None:
    try:
        return require("opentelemetry.trace", extra="otel")
    except ImportError:
        return None


trace = _api()
"""OpenTelemetry's API; None without the extra."""

ASKING, WAITING = "asking", "waiting"


@dataclass(frozen=True)
class Clock:
    """Wall time since a check began, in seconds, and in which phases it went."""

    phases: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Of each phase that is over, in seconds; a phase's own include those of phases in it."""
    _began: float = field(default_factory=time.perf_counter, init=False)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began


_clock: ContextVar[Clock | None] = ContextVar("flwr_kld.clock", default=None)


@contextmanager
def timed(clock: Clock) -> Iterator[None]:
    """Let a clock count the phases in here."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


@contextmanager
def phase(name: str, **public: str | int | float | None) -> Iterator[None]:
    """Time a phase, and put a span around it."""
    clock, began = _clock.get(), time.perf_counter()
    try:
        with _span(name, **public):
            yield
    finally:
        if clock is not None:
            clock.phases[name] += time.perf_counter() - began


@contextmanager
def _span(name: str, **public: str | int | float | None) -> Iterator[None]:
    """Put a span around a phase; one that raises is marked with the type of the error."""
    if trace is None:
        yield
        return
    known: dict[str, Any] = {f"flwr_kld.{k}": v for k, v in public.items() if v is not None}
    with trace.get_tracer("flwr_kld").start_as_current_span(
        f"flwr_kld.{name}", attributes=known, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise


def outcome(words: object) -> None:
    """Say on the span that is open how a check ended."""
    if trace is not None and words is not None:
        trace.get_current_span().set_attribute("flwr_kld.outcome", str(words))
