"""Connections that wait for nobody: who opens many, or ends no request, shuts out nobody else."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_SECONDS = 10.0
"""That a client has for the head of its first request; uvicorn bounds the pause before others."""
_OF_ONE = 32
"""Connections of one address that wait for a request: the oldest is closed for one more."""
_OF_ALL = 512


class Patient:
    """Makes uvicorn's connections, and knows which of them wait for a request."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._waiting: dict[_Connection, str] = {}

    def __call__(self, **options: Any) -> _Connection:
        """Return one connection's protocol."""
        return _Connection(self, **options)

    def waits(self, connection: _Connection, address: str) -> TimerHandle:
        """Let a connection wait, in the place of an older one if there are too many."""
        same = [one for one, other in self._waiting.items() if other == address]
        if len(same) >= _OF_ONE:
            same[0].give_up()
        elif len(self._waiting) >= _OF_ALL:
            next(iter(self._waiting)).give_up()
        self._waiting[connection] = address
        return connection.loop.call_later(self._seconds, connection.give_up)

    def asks(self, connection: _Connection) -> None:
        """Let a connection wait no more: it has asked, or is gone."""
        self._waiting.pop(connection, None)


class _Connection(H11Protocol):
    """One connection."""

    def __init__(self, patient: Patient, **options: Any) -> None:
        super().__init__(**options)
        self._patient = patient
        self._late: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._late = self._patient.waits(self, self.client[0] if self.client else "")

    def handle_events(self) -> None:
        """Read what came; stop waiting once a request's head is complete."""
        super().handle_events()
        if self.cycle is not None:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close a connection that waits."""
        self._stop_waiting()
        self.transport.abort()

    def _stop_waiting(self) -> None:
        self._patient.asks(self)
        if self._late is not None:
            self._late.cancel()
            self._late = None
