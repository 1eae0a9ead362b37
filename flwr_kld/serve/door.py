"""Access control of the live page: who may read it, and the headers of every response."""

from __future__ import annotations

import hmac
from base64 import b64decode
from binascii import Error as NotBase64
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_SHORTEST_TOKEN = 16
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
"""Of each answer: nothing runs but our own files, in no frame of others."""


class Door:
    """What every request passes before the application sees it."""

    # Without a token, requests must be for this very machine's names: a page of another site can
    # make its own name point here (DNS rebinding), yet browsers still send that name as the host.
    # With a token, names do not matter: a browser sends it only to the site that it was typed for.

    def __init__(self, app: ASGIApp, *, token: str | None) -> None:
        if token is not None and len(token) < _SHORTEST_TOKEN:
            raise ValueError(
                f"the token has {len(token)} characters, and needs {_SHORTEST_TOKEN} at least: "
                "make one with openssl rand -hex 32"
            )
        self._app, self._token = app, None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        if method not in ("GET", "HEAD"):
            allow = {"Allow": "GET, HEAD"}
            return PlainTextResponse("This page is read-only.\n", 405, allow)
        if self._token is None and not _is_this_machine(headers.getlist("host")):
            needed = "This host name needs a token: start flwr-kld serve with --token-file.\n"
            return PlainTextResponse(needed, 421)
        if self._token is not None and not self._knows(headers.getlist("authorization")):
            ask = {"WWW-Authenticate": 'Basic realm="flwr-kld", charset="UTF-8"'}
            return PlainTextResponse("A token is required: give it as the password.\n", 401, ask)
        return None

    def _knows(self, given: list[str]) -> bool:
        offered = _password_in(given[0]) if len(given) == 1 else b""
        return hmac.compare_digest(_digest(offered), self._token or b"")


def _is_this_machine(hosts: list[str]) -> bool:
    try:
        (host,) = hosts
        return urlsplit(f"//{host}").hostname in _THIS_MACHINE
    except ValueError:  # none, several, or not a host
        return False


def _password_in(authorization: str) -> bytes:
    """Return the password of a header, if it holds one."""
    scheme, _, value = authorization.partition(" ")
    try:
        password = b64decode(value.strip(), validate=True).partition(b":")[2]
    except (NotBase64, ValueError):  # or not ASCII
        return b""
    return password if scheme.lower() == "basic" else b""


def _digest(token: bytes) -> bytes:
    """Return what tokens are compared by: of one length, whatever theirs."""
    return sha256(token).digest()
