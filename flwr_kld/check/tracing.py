"""Spans of a check's phases, for OpenTelemetry.

They go wherever the application sends its traces; without the extra ``otel``, nowhere. What they
carry is public before anybody is asked, or in the report: no count, and no error's text.

    flwr_kld.check            key, population, kind
      flwr_kld.choose         who is there, and who is asked
      flwr_kld.reserve        the ledger
      flwr_kld.ask            the cohort's answers, and what is made of them
        flwr_kld.publish      one exchange: clients asked
        flwr_kld.conclude     estimates, and the decision's outcome
      flwr_kld.settle         the ledger
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def phase(name: str, **public: str | int | float | None) -> Iterator[None]:
    """Put a span around a phase; one that raises is marked with the type of the error.

    Parameters
    ----------
    name : str
        Behind ``flwr_kld.``.
    public
        Attributes; those that are None are left out.
    """
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
