"""Who may come in to the live page, and connections that wait for nobody."""

from __future__ import annotations

import hmac
from asyncio import TimerHandle, Transport
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

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


_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]
"""An ASGI application."""
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16
"""Characters; shorter ones could be guessed."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of each answer, unless it has its own: nothing runs but our own files, in no frame of others."""


def is_loopback(address: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


class Door:
    """What every request passes before the application sees it."""

    # Without a token, requests must be for this very machine's names: a page of another site can
    # make its own name point here (DNS rebinding), yet browsers still send that name as the host.
    # With a token, names do not matter: a browser sends it only to the site that it was typed for.

    def __init__(
        self,
        app: App,
        *,
        token: str | None,
        names: Iterable[str] = THIS_MACHINE,
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ValueError(
                f"the token has {len(token)} characters, and needs {SHORTEST_TOKEN} at least: make "
                "one with openssl rand -hex 32"
            )
        self._app, self._names = app, frozenset(names)
        self._token = None if token is None else _digest(token.encode())

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                known = {name.lower() for name, _ in given}
                ours = ((n.lower().encode(), v.encode()) for n, v in _HEADERS.items())
                message["headers"] = given + [(n, v) for n, v in ours if n not in known]
            await send(message)

        if scope["method"] not in ("GET", "HEAD"):
            await _answer(guarded, 405, "This page is read-only.", {"Allow": "GET, HEAD"})
        elif self._token is None and not self._for_us(_all(headers, b"host")):
            needed = "This host name needs a token: start flwr-kld serve with --token-file."
            await _answer(guarded, 421, needed)
        elif self._token is not None and not self._knows(_all(headers, b"authorization")):
            ask = {"WWW-Authenticate": 'Basic realm="flwr-kld", charset="UTF-8"'}
            await _answer(guarded, 401, "A token is required: give it as the password.", ask)
        else:
            await self._app(scope, receive, guarded)

    def _for_us(self, hosts: list[bytes]) -> bool:
        try:
            (host,) = hosts
            return urlsplit(f"//{host.decode('ascii')}").hostname in self._names
        except ValueError:  # none, several, or not a host
            return False

    def _knows(self, given: list[bytes]) -> bool:
        offered = _token_in(given[0]) if len(given) == 1 else b""
        return hmac.compare_digest(_digest(offered), self._token or b"")


def _token_in(authorization: bytes) -> bytes:
    """Return the token of a header, if it holds one."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return b64decode(value.strip(), validate=True).partition(b":")[2]
        except NotBase64:
            return b""
    return b""


def _digest(token: bytes) -> bytes:
    """Return what tokens are compared by: of one length, whatever theirs."""
    return sha256(token).digest()


def _all(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


async def _answer(send: _Send, status: int, words: str, more: dict[str, str] | None = None) -> None:
    headers = {"Content-Type": "text/plain; charset=utf-8", **(more or {})}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": f"{words}\n".encode()})
