"""Addresses of the live page, and what is answered where a request or the ledger fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from flwr_kld.accounting.errors import LedgerError
from flwr_kld.report.render import TEMPLATES, render
from flwr_kld.serve.pages import NotThere, Pages

_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of a picture that is opened by itself: it has styles of its own, and runs nothing."""
_LONGEST = 18
"""Digits of a number; databases hold no larger ones."""


def site(pages: Pages) -> Starlette:
    """Return the application: few addresses, whose variable parts are all in queries."""

    def page(make: Callable[[Request], str]) -> Callable[[Request], Response]:
        return lambda request: HTMLResponse(make(request))

    def picture(request: Request) -> Response:
        drawn = pages.picture(
            _text(request, "population"),
            request.query_params.get("predictor"),
            _number(request, "before"),
            dark=request.query_params.get("dark") == "1",
            narrow=request.query_params.get("narrow") == "1",
        )
        policy = {"Content-Security-Policy": _PICTURE_POLICY}
        return Response(drawn, media_type="image/svg+xml", headers=policy)

    routes: dict[str, Callable[[Request], Response]] = {
        "/": page(lambda _: pages.populations()),
        "/checks": page(lambda r: pages.checks(_text(r, "population"), _number(r, "before"))),
        "/check": page(lambda r: pages.check(_number(r, "number"))),
        "/rounds": page(
            lambda r: pages.rounds(
                _text(r, "population"), _text(r, "predictor"), _number(r, "before")
            )
        ),
        "/plot.svg": picture,
        "/stamp": lambda _: PlainTextResponse(pages.stamp()),
        "/style.css": _file("style.css", "text/css"),
        "/live.js": _file("live.js", "text/javascript"),
    }
    app = Starlette(
        routes=[Route(path, answer) for path, answer in routes.items()],
        exception_handlers={
            HTTPException: lambda _, error: _problem(error.status_code, str(error.detail)),
            NotThere: lambda _, error: _problem(404, str(error)),
            LedgerError: lambda _, error: _problem(503, str(error)),
            ImportError: lambda _, error: _problem(501, str(error)),
        },
    )
    app.router.redirect_slashes = False  # a redirect would repeat the host that was asked for
    return app


def _problem(status: int, words: str) -> Response:
    names = {404: "Not found", 503: "The ledger cannot be read"}
    title = names.get(status, "This cannot be shown")
    content = render("problem.html.j2", title=title, subtitle="", words=words, here="", places=[])
    return HTMLResponse(content, status_code=status)


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    content = Path(TEMPLATES, name).read_bytes()
    return lambda _: Response(content, media_type=media_type)


def _text(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise HTTPException(400, f"the address must have exactly one {name}")
    return values[0]


def _number(request: Request, name: str) -> Any:
    """Return a number of the query; None if it has none."""
    if name not in request.query_params:
        return None
    value = _text(request, name)
    if not (value.isascii() and value.isdigit() and len(value) <= _LONGEST):
        raise HTTPException(400, f"{name} must be a whole number")
    return int(value)
