"""The live pages of a ledger, and the responses when a request or the ledger fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from flwr_kld.ledger import Kind, LedgerError
from flwr_kld.ledger.entry import Entry
from flwr_kld.ledger.read_only import LedgerView
from flwr_kld.report.column import MARKS
from flwr_kld.report.entries import (
    SHOWN,
    back_to,
    beside,
    brief_report_of,
    is_check,
    latest_rounds,
    numbered,
    read_report,
    report_of,
)
from flwr_kld.report.envelope import Point
from flwr_kld.report.predictor_report import round_of
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.views import CheckSeries, Description, RoundSeries
from flwr_kld.views.page import TEMPLATES, render

EACH = 30
"""Checks or rounds of a page."""
_RECENT = 14
"""Checks of a population on the page of all of them."""
_LEAVING = 5
"""Entries that leave the window next, of those a page names."""
_KEPT = 64
_HOUR = 3600
"""Seconds for which a window is taken to stand still."""


class NotThere(LookupError):
    """What an address asks for is not in the ledger."""


@dataclass(frozen=True)
class Tick:
    """A check on the line of checks."""

    mark: str  # Shape and colour of how it ended
    tone: str
    words: str  # The same in words
    link: str  # Where it is shown


class Pages:
    """Everything that can be seen of a ledger, as HTML; a page is kept until the ledger changes."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._making = Lock()  # matplotlib's settings are of the whole process
        self._kept = lru_cache(_KEPT)(lambda _, make, *query: make(*query))

    def stamp(self) -> str:
        """Return what changes with the ledger."""
        return self._view.stamp()

    def page(self, make: Callable[..., str], *query: Any) -> str:
        """Return one of the pages below."""
        with self._making:
            return str(self._kept((self.stamp(), time.time() // _HOUR), make, *query))

    def populations(self) -> str:
        """Return the page of all populations: the latest verdicts, and what is left."""
        cards = [self._card(name) for name in self._view.populations()]
        return render("populations.html.j2", cards=cards, **self._around("", "Drift checks"))

    def checks(self, population: str, before: int | None) -> str:
        """Return the page of a population's latest checks, or of those before an entry."""
        self._require(population)
        newest = self._view.newest_first(population, SHOWN, before=before)
        entries = back_to(newest, EACH, is_check)
        series, links = self._series(entries)
        query = {"population": population}
        return series.to_html(
            **self._around(population, f"Drift checks of {population}"),
            links=links,
            spent=None if before else self._view.spent(population),
            leaving=[] if before else self._view.leaving(population, _LEAVING),
            ticks=list(_ticks(series, links)),
            beside=list(self._beside(entries)),
            predictors=[
                (name, _link("rounds", population=population, predictor=name))
                for name in self._predictors(population)
            ],
            older=_older(entries, len(series), "checks", query),
            newest=_link("checks", **query) if before else None,
        )

    def description(self, number: int | None) -> str:
        """Return the page of one description of clients' data."""
        entry = None if number is None else self._view.entry(number)
        report = None if entry is None else read_report(entry, StatisticsReport)
        if entry is None or report is None:
            raise NotThere("the ledger has no such description")
        title = f"What the data of {entry.population} look like"
        return Description(report).to_html(
            **self._around(entry.population, title, entry.key),
            charged=entry,
            newest=_link("checks", population=entry.population),
        )

    def check(self, number: int | None) -> str:
        """Return the page of one check."""
        entry = None if number is None else self._view.entry(number)
        if entry is None or not is_check(entry):
            raise NotThere("the ledger has no such check")
        before = self._before(entry)
        title = f"Check {before + 1} of {entry.population}"
        return CheckSeries.from_entries([entry], before).to_html(
            **self._around(entry.population, title, entry.key),
            charged=entry,
            newest=_link("checks", population=entry.population),
        )

    def rounds(self, population: str, predictor: str, before: int | None) -> str:
        """Return the page of a predictor's latest rounds."""
        self._require(population)
        newest = self._view.newest_first(population, [Kind.ROUND], before=before)
        try:
            entries = latest_rounds(newest, predictor, EACH)
        except ValueError as error:
            raise NotThere(str(error)) from None
        series = RoundSeries.from_entries(map(self._view.with_report, entries))
        query = {"population": population, "predictor": predictor}
        return series.to_html(
            **self._around(population, f"Predictor {predictor} of {population}"),
            older=_older(entries, len(series), "rounds", query),
            newest=_link("rounds", **query) if before else None,
        )

    def _around(self, population: str, title: str, subtitle: str = "") -> dict[str, Any]:
        names = self._view.populations()
        return {
            "layout": "live.html.j2",
            "title": title,
            "subtitle": subtitle,
            "here": population,
            "places": [(name, _link("checks", population=name)) for name in names],
            "stamp": self.stamp(),
            "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        }

    def _card(self, population: str) -> dict[str, Any]:
        newest = self._view.newest_first(population, SHOWN)
        series, links = self._series(back_to(newest, _RECENT, is_check))
        return {
            "name": population,
            "link": _link("checks", population=population),
            "point": series.points[-1] if series else None,
            "ticks": list(_ticks(series, links)),
            "spent": self._view.spent(population),
            "predictors": self._predictors(population),
        }

    def _series(self, entries: Sequence[Entry]) -> tuple[CheckSeries, dict[int, str]]:
        """Return checks, the last with a report in full, and where each is shown by itself."""
        settled = (e for e in reversed(entries) if is_check(e) and e.state == "settled")
        shown = next(settled, None)

        def read(entry: Entry) -> Report | None:
            of = report_of if entry is shown else brief_report_of
            return of(self._view.with_report(entry))

        before = self._before(entries[0]) if entries else 0
        links = {n: _link("check", number=e.number) for n, e in numbered(entries, before)}
        return CheckSeries.from_entries(entries, before, read=read), links

    def _beside(self, entries: Sequence[Entry]) -> Iterator[tuple[str, str | None]]:
        """Yield words for what is no check, and where it is shown by itself."""
        for light in entries:
            entry = light if is_check(light) else self._view.with_report(light)
            if (words := beside(entry)) is not None:
                shown = read_report(entry, StatisticsReport) is not None
                yield words, _link("description", number=entry.number) if shown else None

    def _before(self, entry: Entry) -> int:
        """Count the checks before an entry."""
        keys = self._view.keys(entry.population)
        return sum(number < entry.number and kind is Kind.CHECK for number, kind, _ in keys)

    def _predictors(self, population: str) -> list[str]:
        keys = self._view.keys(population)
        return list(dict.fromkeys(round_of(key)[0] for _, kind, key in keys if kind is Kind.ROUND))

    def _require(self, population: str) -> None:
        if population not in self._view.populations():
            raise NotThere("the ledger has no such population")


def _ticks(series: CheckSeries, links: dict[int, str]) -> Iterator[Tick]:
    for point in series:
        mark, outcome = _looks(point)
        when = f", {point.started[:10]}" if point.started else ""
        tone = outcome.partition(",")[0].replace(" ", "-")
        words = f"check {point.number}{when}: {outcome}"
        yield Tick(mark, tone, words, links[point.number])


def _looks(point: Point[Report]) -> tuple[str, str]:
    """Return mark and words of how a check ended; their beginning is a class of the style sheet."""
    if point.report is None:
        return ("×", "failed, no number") if point.ended else ("…", "not ended")
    outcome = point.report.outcome
    return MARKS[outcome], "not judged" if outcome is None else str(outcome)


def _older(entries: Sequence[Entry], shown: int, page: str, query: dict[str, str]) -> str | None:
    """Return where earlier ones are, if there may be some."""
    return _link(page, **query, before=entries[0].number) if shown >= EACH else None


def _link(page: str, **query: Any) -> str:
    return f"{page}?{urlencode(query)}"


_LONGEST = 18
"""Digits of a number; databases hold no larger ones."""


def site(pages: Pages) -> Starlette:
    """Return the application: few addresses, whose variable parts are all in queries."""

    def page(make: Callable[..., str], **query: Callable[[Request, str], Any]) -> Route:
        def answer(request: Request) -> Response:
            asked = [read(request, name) for name, read in query.items()]
            return HTMLResponse(pages.page(make, *asked))

        return Route(f"/{make.__name__}" if query else "/", answer)

    app = Starlette(
        routes=[
            page(pages.populations),
            page(pages.checks, population=_text, before=_number),
            page(pages.check, number=_number),
            page(pages.description, number=_number),
            page(pages.rounds, population=_text, predictor=_text, before=_number),
            Route("/stamp", lambda _: PlainTextResponse(pages.stamp())),
            Route("/style.css", _file("style.css", "text/css")),
            Route("/live.js", _file("live.js", "text/javascript")),
        ],
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


def _number(request: Request, name: str) -> int | None:
    """Return a number of the query; None if it has none."""
    if name not in request.query_params:
        return None
    value = _text(request, name)
    if not (value.isascii() and value.isdigit() and len(value) <= _LONGEST):
        raise HTTPException(400, f"{name} must be a whole number")
    return int(value)
