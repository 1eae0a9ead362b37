"""``flwr-kld history`` and ``flwr-kld report``, and a check in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from flwr_kld.cli.app_runs import Answer
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    Last,
    LedgerUrl,
    Population,
    Predictor,
    existing_ledger,
    results,
    say,
)
from flwr_kld.report import CheckSeries, Outcome, RoundSeries, Verdict
from flwr_kld.report.entries import (
    back_to,
    beside,
    checks_before,
    is_check,
    latest_rounds,
    predictors_of,
)
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import MARKS, Report, columns_table
from flwr_kld.report.series import FORMATS, Series, require_form
from flwr_kld.report.words import alarm_lines, as_text, evidence, guarantees, how_sure, left_out

_ALARM = f"{MARKS[Outcome.DRIFT]} {Outcome.DRIFT}"

_WHOSE = {"population": "of ", "cohort": "of the very records counted, "}


def answer_lines(answer: Answer) -> Iterator[Text]:
    """Yield how a check ended, in lines: the decision first."""
    yield answer.head("check")
    if answer.message:
        yield Text(answer.message)
    if isinstance(answer.report, Report):
        for line in report_lines(answer.report, width=results.width):
            yield Text(line, style="bold red" if _ALARM in line else "")


def report_lines(report: Report, *, width: int = 80) -> Iterator[str]:
    """Yield a report in lines; a table's columns fit into a width in characters."""
    verdict, reading = report.verdict, report.reading
    cohort, cost = report.cohort, report.cost
    if verdict is None:
        yield "no threshold is set: nothing was decided"
    else:
        yield verdict.reason
        if verdict.resolve:
            yield f"what would resolve it: {verdict.resolve}"
    if report.is_table:
        yield from as_text(columns_table(report.columns), width=width).splitlines()
        yield f"the column that moved most: {report.column}"
    theta = "" if reading.theta is None else f", θ = {reading.theta:.3g}"
    yield f"divergence KL(reference ‖ clients) in nats, 0 for no difference{theta}:"
    for told in reading.estimates:
        yield f"  {told.of}: {told} (s.d.), {_WHOSE[told.of]}{told.whose}"
    if not reading.estimates:
        yield f"  no estimate: {reading.note}"
    if verdict is not None:
        yield from map("  {}".format, _limits(report, verdict))
    if reading.note and reading.estimates:
        yield reading.note
    if reading.outside is not None:
        yield f"records outside the reference: {reading.outside}{_outside_limits(verdict)}"
        if report.is_table and "other" in reading.outside.clear:
            yield f"which labels these are: flwr-kld discover --column {report.column!r}"
    if verdict is not None and verdict.evidence is not None and verdict.alarm_at is not None:
        yield (
            f"evidence over checks: {evidence(verdict.evidence)}; alarms from "
            f"{evidence(verdict.alarm_at)} on"
        )
    if verdict is not None and verdict.holds:
        yield "how sure that is:"
        for why, numbers in guarantees(verdict.holds):
            yield f"  {numbers}: {why}"
    if verdict is not None and verdict.alarm is not None:
        yield "how the alarm works:"
        yield from map("  {}".format, alarm_lines(verdict.alarm))
    if not report.is_table and (said := report.columns[report.column].sentence):
        yield f"what moved most: {said}"
    if report.period is not None:
        yield f"period: records with {report.period}"
    left = "" if cost.left is None else f", {cost.rest} left in the window"
    yield (
        f"privacy: ε = {cost.price} for each {report.guarantee.unit} asked "
        f"({report.guarantee.adjacency}){left}. {report.protection.sight.exact}"
    )
    if not report.protection.private:
        yield "SEEDED NOISE: NOT PRIVATE"
    silent = f" and {cohort.silent} as before" if cohort.silent else ""
    yield (
        f"clients: {cohort.survivors} of {cohort.asked}{silent}, {reading.records:,.0f} records; "
        f"{cost.time}"
    )
    if missing := left_out(cohort.dropouts):
        yield f"left out: {missing}"
    yield str(report.one_client)
    if report.one_client.note:
        yield report.one_client.note


def _limits(report: Report, verdict: Verdict) -> Iterator[str]:
    """Yield what the divergence is at least and at most, and what is tolerated."""
    sure = f"with probability {100 * verdict.level:g} %"
    if report.lower_bound is None:
        yield "lower bound: none"
    else:
        kind = how_sure(verdict.holds, "lower_bound")
        yield f"lower bound: the population's is at least {_nats(report.lower_bound)}, {sure}{kind}"
    if report.upper_limit is not None:
        kind = how_sure(verdict.holds, "upper_limit")
        yield f"upper limit: at most {_nats(report.upper_limit)}, {sure}{kind}"
    rule = ""
    if verdict.resolution is not None:
        allowed = verdict.threshold + verdict.resolution
        rule = f'; "no drift" and "quiet" allow {verdict.resolution:g} more: {allowed:.3g}'
    yield f"threshold: {verdict.threshold:g} is tolerated{rule}"


def _outside_limits(verdict: Verdict | None) -> str:
    """Say between what the fraction outside the reference is, and what is tolerated."""
    if verdict is None or verdict.outside_lower is None or verdict.outside_tolerated is None:
        return ""
    most = "" if verdict.outside_upper is None else f", at most {100 * verdict.outside_upper:.3g} %"
    level = f"with probability {100 * verdict.level:g} %" + (" each" if most else "")
    return (
        f"; of the population's, at least {100 * verdict.outside_lower:.3g} %{most}, "
        f"{level}{how_sure(verdict.holds, 'outside')}; "
        f"{100 * verdict.outside_tolerated:.3g} % are tolerated"
    )


def failures(series: Series[Report] | Series[PredictorReport]) -> Iterator[Text]:
    """Yield a line for each check or round without a report."""
    for point in series:
        if point.report is None:
            words = f"{series.what} {point.number}: {point.failure or 'failed'}"
            yield Text(words, style="dim")


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"


def utc(moment: datetime) -> str:
    """Write a moment to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def history(
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    predictor: Predictor = None,
    last: Last = 30,
) -> None:
    """Show the latest checks of a population, or rounds of one predictor, oldest first."""
    books = existing_ledger(ledger)
    newest = books.newest_first(population)
    if predictor is not None:
        rounds = RoundSeries.from_entries(latest_rounds(newest, predictor, last))
        results.print(rounds.table(title=f"Rounds of {predictor} ({population})"))
        results.print(*failures(rounds), sep="\n")
    else:
        entries = back_to(newest, last, is_check)
        _show_checks(
            CheckSeries.from_entries(entries, checks_before(books, entries, population)), population
        )
        for words in filter(None, map(beside, entries)):
            say(words)
        for name in predictors_of(entries):
            say(f"the ledger has rounds of a predictor, too: --predictor {name}")


def _show_checks(checks: CheckSeries, population: str) -> None:
    if not checks:
        say(f"the ledger has no checks of population {population!r}")
        return
    results.print(checks.table(title=f"Checks of {population}"))
    results.print(*failures(checks), *map(Text, checks.since), sep="\n")
    if checks.reports and checks.reports[-1].is_table:
        results.print(Text("\nThe last check's columns, those that moved most first:"))
        results.print(columns_table(checks.reports[-1].columns))


def report(
    file: Annotated[
        Path, typer.Argument(help=f"File to write; its ending is the format: {', '.join(FORMATS)}.")
    ] = Path("report.html"),
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    predictor: Predictor = None,
    last: Last = 365,
    title: Annotated[str | None, typer.Option(help="Heading of the page or picture.")] = None,
) -> None:
    """Write the latest checks of a population, or rounds of a predictor, to a file.

    By default this is a self-contained HTML page.
    """
    require_form(file)
    books = existing_ledger(ledger)
    newest = books.newest_first(population)
    if predictor is not None:
        rounds = RoundSeries.from_entries(latest_rounds(newest, predictor, last))
        rounds.save(file, title=title or f"Predictor {predictor} of {population}")
        say(f"{file}: {len(rounds)} rounds")
        return
    entries = back_to(newest, last, is_check)
    checks = CheckSeries.from_entries(entries, checks_before(books, entries, population))
    if not checks:
        raise ValueError(f"the ledger has no checks of population {population!r}")
    checks.save(file, title=title or f"Drift checks of {population}")
    say(f"{file}: {len(checks)} checks")
