"""The live pages of a ledger, and what is answered where a request or the ledger fails."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from flwr_kld.accounting import Kind
from flwr_kld.accounting.budget import Spent
from flwr_kld.accounting.entry import Entry
from flwr_kld.accounting.view import LedgerView
from flwr_kld.errors import LedgerError
from flwr_kld.report import CheckSeries, RoundSeries
from flwr_kld.report.entries import (
    NUMBERED,
    back_to,
    beside,
    brief_report_of,
    is_check,
    latest_rounds,
    numbered,
    report_of,
    statistics_of,
)
from flwr_kld.report.predictor_report import round_of
from flwr_kld.report.render import SCREENS, TEMPLATES, Picture, render
from flwr_kld.report.report import MARKS, Report
from flwr_kld.report.series import Point, Series
from flwr_kld.report.statistics_report import StatisticsReport

EACH = 30
"""Checks or rounds of a page."""
_RECENT = 14
"""Checks of a population on the page of all of them."""
_LEAVING = 5
"""Entries that leave the window next, of those a page names."""
_KEPT_REPORTS, _KEPT_PICTURES = 1024, 64
_MINUTE = 60
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


@dataclass(frozen=True)
class _Known:
    """What of a population is known as long as its ledger does not change."""

    numbers: tuple[int, ...]  # Of the entries that take a number among checks, rising
    predictors: tuple[str, ...]  # Names of those that have rounds

    def before(self, number: int) -> int:
        """Count the numbered entries before one."""
        return bisect_left(self.numbers, number)


class Pages:
    """Everything that can be seen of a ledger, as HTML and SVG."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._drawing = Lock()  # matplotlib's settings are of the whole process
        self._drawn = lru_cache(_KEPT_PICTURES)(self._draw)
        self._known = lru_cache(_KEPT_PICTURES)(self._read_known)
        self._spent = lru_cache(_KEPT_PICTURES)(self._read_spent)
        self._reports: dict[tuple[int, datetime | None], Report | None] = {}

    def stamp(self) -> str:
        """Return what changes with the ledger."""
        return self._view.stamp()

    def warm_up(self) -> None:
        """Read and draw what is asked for first, so that nobody waits for it."""
        for population in self._view.populations():
            self.checks(population)
            with suppress(NotThere, ImportError):  # without a report, or the extra that draws
                self.picture(population, None, None, dark=False, narrow=False)

    # ---------------------------------------------------------------------------------- pages

    def populations(self) -> str:
        """Return the page of all populations: the latest verdicts, and what is left."""
        stamp = self.stamp()
        cards = [self._card(stamp, name) for name in self._view.populations()]
        return render("populations.html.j2", cards=cards, **self._around(stamp, "", "Drift checks"))

    def checks(self, population: str, before: int | None = None) -> str:
        """Return the page of a population's latest checks, or of those before an entry."""
        self._require(population)
        stamp = self.stamp()
        entries = self._checks(population, before)
        series, links = self._series(stamp, entries)
        query = {"population": population}
        return series.page(
            plots=_plots({**query, "before": before}) if series.reports else [],
            **self._around(stamp, population, f"Drift checks of {population}"),
            links=links,
            spent=None if before else self._left(stamp, population),
            leaving=[] if before else self._view.leaving(population, _LEAVING),
            ticks=list(_ticks(series, links)),
            beside=list(self._beside(entries)),
            predictors=[
                (name, _link("rounds", population=population, predictor=name))
                for name in self._of(stamp, population).predictors
            ],
            older=_older(entries, len(series), "checks", query),
            newest=_link("checks", **query) if before else None,
        )

    def _beside(self, entries: Sequence[Entry]) -> Iterator[tuple[str, str | None]]:
        """Yield words for what is no check, and where it is shown by itself."""
        for light in entries:
            entry = light if is_check(light) else self._view.with_report(light)
            if (words := beside(entry)) is not None:
                shown = statistics_of(entry) is not None
                yield words, _link("description", number=entry.number) if shown else None

    def description(self, number: int | None) -> str:
        """Return the page of one description of clients' data."""
        entry, report = self._description(number)
        title = f"What the data of {entry.population} look like"
        return report.page(
            plots=_plots({"population": entry.population, "described": entry.number}),
            **self._around(self.stamp(), entry.population, title, entry.key),
            charged=entry,
            newest=_link("checks", population=entry.population),
        )

    def _description(self, number: int | None) -> tuple[Entry, StatisticsReport]:
        entry = None if number is None else self._view.entry(number)
        report = None if entry is None else statistics_of(entry)
        if entry is None or report is None:
            raise NotThere("the ledger has no such description")
        return entry, report

    def check(self, number: int | None) -> str:
        """Return the page of one check."""
        entry = None if number is None else self._view.entry(number)
        if entry is None or not is_check(entry):
            raise NotThere("the ledger has no such check")
        stamp = self.stamp()
        counted = self._of(stamp, entry.population).before(entry.number)
        series = CheckSeries.from_entries([entry], counted)
        return series.page(
            plots=[],
            **self._around(
                stamp, entry.population, f"Check {counted + 1} of {entry.population}", entry.key
            ),
            charged=entry,
            newest=_link("checks", population=entry.population),
        )

    def rounds(self, population: str, predictor: str, before: int | None = None) -> str:
        """Return the page of a predictor's latest rounds."""
        self._require(population)
        stamp = self.stamp()
        entries = self._rounds(population, predictor, before)
        series = RoundSeries.from_entries(map(self._view.with_report, entries))
        query = {"population": population, "predictor": predictor}
        return series.page(
            plots=_plots({**query, "before": before}) if series.reports else [],
            **self._around(stamp, population, f"Predictor {predictor} of {population}"),
            older=_older(entries, len(series), "rounds", query),
            newest=_link("rounds", **query) if before else None,
        )

    # ------------------------------------------------------------------------------- pictures

    def picture(
        self,
        population: str,
        predictor: str | None,
        before: int | None,
        described: int | None = None,
        *,
        dark: bool,
        narrow: bool,
    ) -> bytes:
        """Return the plot of a page, for one kind of screen; kept until the ledger changes."""
        self._require(population)
        stamp = self.stamp()
        return self._drawn(stamp, population, predictor, before, described, dark, narrow)

    def _draw(
        self,
        stamp: str,
        population: str,
        predictor: str | None,
        before: int | None,
        described: int | None,
        dark: bool,
        narrow: bool,
    ) -> bytes:
        shown: Series[Any] | StatisticsReport
        if described is not None:
            _, shown = self._description(described)
        elif predictor is None:
            shown, _ = self._series(stamp, self._checks(population, before))
        else:
            entries = self._rounds(population, predictor, before)
            shown = RoundSeries.from_entries(map(self._view.with_report, entries))
        if isinstance(shown, Series) and not shown.reports:
            raise NotThere("there is nothing to draw")
        with self._drawing, TemporaryDirectory() as folder:
            file = Path(folder) / "plot.svg"
            shown.plot(file, dark=dark, narrow=narrow)
            return file.read_bytes()

    # ---------------------------------------------------------------------------------- parts

    def _around(
        self, stamp: str, population: str, title: str, subtitle: str = ""
    ) -> dict[str, Any]:
        names = self._view.populations()
        return {
            "layout": "live.html.j2",
            "title": title,
            "subtitle": subtitle,
            "here": population,
            "places": [(name, _link("checks", population=name)) for name in names],
            "stamp": stamp,
            "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        }

    def _card(self, stamp: str, population: str) -> dict[str, Any]:
        newest = self._view.newest_first(population, NUMBERED)
        series, links = self._series(stamp, back_to(newest, _RECENT, is_check))
        return {
            "name": population,
            "link": _link("checks", population=population),
            "point": series.points[-1] if series else None,
            "ticks": list(_ticks(series, links)),
            "spent": self._left(stamp, population),
            "predictors": self._of(stamp, population).predictors,
        }

    def _series(self, stamp: str, entries: Sequence[Entry]) -> tuple[CheckSeries, dict[int, str]]:
        """Return checks, the last with a report in full, and where each is shown by itself."""
        if not entries:
            return CheckSeries([]), {}
        settled = (e for e in reversed(entries) if is_check(e) and e.state == "settled")
        shown = next(settled, None)

        def read(entry: Entry) -> Report | None:
            return (
                report_of(self._view.with_report(entry)) if entry is shown else self._brief(entry)
            )

        before = self._of(stamp, entries[0].population).before(entries[0].number)
        links = {n: _link("check", number=e.number) for n, e in numbered(entries, before)}
        return CheckSeries.from_entries(entries, before, read=read), links

    def _brief(self, entry: Entry) -> Report | None:
        """Read a report, once: what has ended does not change."""
        key = (entry.number, entry.ended)
        if key not in self._reports:
            if len(self._reports) >= _KEPT_REPORTS:
                self._reports.clear()
            self._reports[key] = brief_report_of(self._view.with_report(entry))
        return self._reports[key]

    def _checks(self, population: str, before: int | None) -> list[Entry]:
        newest = self._view.newest_first(population, NUMBERED, before=before)
        return back_to(newest, EACH, is_check)

    def _rounds(self, population: str, predictor: str, before: int | None) -> list[Entry]:
        newest = self._view.newest_first(population, [Kind.ROUND], before=before)
        try:
            return latest_rounds(newest, predictor, EACH)
        except ValueError as error:
            raise NotThere(str(error)) from None

    def _of(self, stamp: str, population: str) -> _Known:
        return self._known(stamp, population)

    def _read_known(self, stamp: str, population: str) -> _Known:
        keys = self._view.keys(population)
        rounds = (round_of(key)[0] for _, kind, key in keys if kind is Kind.ROUND)
        return _Known(
            tuple(number for number, kind, _ in keys if kind in NUMBERED),
            tuple(dict.fromkeys(rounds)),
        )

    def _left(self, stamp: str, population: str) -> Spent | None:
        return self._spent(stamp, population, int(time.time() // _MINUTE))

    def _read_spent(self, stamp: str, population: str, minute: int) -> Spent | None:
        return self._view.spent(population, now=_MINUTE * minute)

    def _require(self, population: str) -> None:
        if population not in self._view.populations():
            raise NotThere("the ledger has no such population")


def _ticks(series: CheckSeries, links: dict[int, str]) -> Iterator[Tick]:
    for point in series:
        mark, tone = _looks(point)
        outcome = _OUTCOMES[tone]
        when = f", {point.started[:10]}" if point.started else ""
        yield Tick(mark, tone, f"check {point.number}{when}: {outcome}", links[point.number])


def _looks(point: Point[Report]) -> tuple[str, str]:
    """Return mark and tone of how a check ended."""
    if point.report is None:
        return ("×", "failed") if point.ended else ("…", "going")
    outcome = point.report.outcome
    return MARKS[outcome], "undecided" if outcome is None else str(outcome).replace(" ", "-")


_OUTCOMES = {
    "drift": "drift", "no-drift": "no drift", "quiet": "quiet", "inconclusive": "inconclusive",
    "undecided": "not decided", "failed": "failed, no number", "going": "not ended",
}  # fmt: skip


def _older(entries: Sequence[Entry], shown: int, page: str, query: dict[str, str]) -> str | None:
    """Return where earlier ones are, if there may be some."""
    return _link(page, **query, before=entries[0].number) if shown >= EACH else None


def _plots(query: dict[str, Any]) -> list[Picture]:
    known = {name: value for name, value in query.items() if value is not None}
    return [
        Picture(media, _link("plot.svg", **known, dark=int(dark), narrow=int(narrow)))
        for media, dark, narrow in SCREENS
    ]


def _link(page: str, **query: Any) -> str:
    return f"{page}?{urlencode(query)}"


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
            _number(request, "described"),
            dark=request.query_params.get("dark") == "1",
            narrow=request.query_params.get("narrow") == "1",
        )
        policy = {"Content-Security-Policy": _PICTURE_POLICY}
        return Response(drawn, media_type="image/svg+xml", headers=policy)

    routes: dict[str, Callable[[Request], Response]] = {
        "/": page(lambda _: pages.populations()),
        "/checks": page(lambda r: pages.checks(_text(r, "population"), _number(r, "before"))),
        "/check": page(lambda r: pages.check(_number(r, "number"))),
        "/description": page(lambda r: pages.description(_number(r, "number"))),
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
