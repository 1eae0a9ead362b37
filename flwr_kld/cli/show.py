"""``flwr-kld report``, and a check in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    ExitCode,
    LedgerUrl,
    OwnConfig,
    OwnData,
    OwnQuery,
    Population,
    Predictor,
    print_note,
    refuse_given,
    results,
)
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.common.durable_files import put_in_place
from flwr_kld.ledger import Kind, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.column import MARKS, columns_table
from flwr_kld.report.entries import (
    SHOWN,
    back_to,
    beside,
    checks_before,
    is_check,
    latest_rounds,
    predictors_of,
    report_of,
)
from flwr_kld.report.node_comparison import NodeComparison
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report
from flwr_kld.report.words import counted, wrapped
from flwr_kld.views import CheckSeries, RoundSeries, view_of
from flwr_kld.views.files import FORMATS, METRICS, require_form
from flwr_kld.views.series import Series
from flwr_kld.views.text import next_step

if TYPE_CHECKING:
    from flwr_kld.cli.app_runs import Answer

_SHOWN, _WRITTEN = 30, 365
"""Latest checks or rounds on a terminal and in a file."""
_ALARM = f"{MARKS[Outcome.DRIFT]} {Outcome.DRIFT}"


def answer_lines(answer: Answer, what: str = "check", view: Any = None) -> Iterator[Text]:
    """Yield how a check or a question ended, in lines: the outcome first."""
    if answer.report is None:
        yield answer.head(what)
        yield Text(answer.message or "")
        return
    lines = (view or view_of(answer.report)).lines(width=results.width)
    first = wrapped(answer.report.summary, results.width)
    for _, line in zip(first, lines, strict=False):
        yield Text(line, style=answer.style)
    if answer.stored:
        yield Text("Already in the ledger: nobody was asked.", style="dim")
    for line in lines:
        yield Text(line, style="bold red" if _ALARM in line else "")


def failures(series: Series[Report] | Series[PredictorReport]) -> Iterator[Text]:
    """Yield a line for each check or round without a report."""
    for point in series:
        if point.report is None:
            words = f"{series.what} {point.number}: {point.failure or 'failed'}"
            yield Text(words, style="dim")


def report(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help=f"File to write; its ending is the format: {', '.join(FORMATS)}."),
    ] = None,
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    predictor: Predictor = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of latest checks or rounds; by default 30, or 365 in a file."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Write only the check of this key, .json, as flwr-kld verify reads it."),
    ] = None,
    mine: Annotated[
        Path | None,
        typer.Option(
            help="On a node, in place of a ledger: the published report, .json, or the folder that "
            "drift-reports of the node config names. Its last check is compared."
        ),
    ] = None,
    data: OwnData = None,
    reference: Annotated[
        Path | None, typer.Option(help="Reference of the check of --mine, .json.")
    ] = None,
    query: OwnQuery = "",
    node_config: OwnConfig = "",
) -> None:
    """Show the latest checks of a population, or rounds of a predictor; or write them to a FILE.

    Oldest first. A file that ends in .html is a self-contained page.

    With --mine, --data and --reference, on a node: say whether this node's records made what moved.
    They are compared here with the reference and the published report, and nothing is sent; what is
    printed or written (also as Prometheus metrics, .prom) is private. Exit codes: 0 no, 1 yes, 2
    unknown.
    """
    if file is not None:
        require_form(file, FORMATS if mine is None else (*FORMATS, METRICS))
    if mine is not None:
        if data is None or reference is None:
            raise ValueError("--mine goes with --data and --reference")
        refuse_given(context, "ledger", "population", "predictor", "last", "key", why="with --mine")
        from flwr_kld.cli.records import compare_records  # which no ledger needs

        _show_mine(
            compare_records(mine, data, reference, query=query, node_config=node_config), file
        )
    if data is not None or reference is not None or query or node_config:
        raise ValueError("--data, --reference, --query and --node-config need --mine, a report")
    last = last or (_SHOWN if file is None else _WRITTEN)
    opened = existing_ledger(ledger)
    if key is not None:
        refuse_given(context, "last", "predictor", why="with --key")
        _write_one(opened, key, population, file)
        return
    if predictor is not None:
        newest = opened.newest_first(population, [Kind.ROUND])
        rounds = RoundSeries.from_entries(latest_rounds(newest, predictor, last))
        title = f"Predictor {predictor} of {population}"
        if file is None:
            results.print(rounds.table(title=title))
            for line in failures(rounds):
                results.print(line)
        else:
            _write(rounds, file, title)
        return
    entries = back_to(opened.newest_first(population, SHOWN), last, is_check)
    checks = CheckSeries.from_entries(entries, checks_before(opened, entries, population))
    title = f"Drift checks of {population}"
    if file is not None:
        if not checks:
            raise ValueError(f"the ledger has no checks of population {population!r}")
        _write(checks, file, title)
        return
    _show_checks(checks, population, title)
    for words in filter(None, map(beside, entries)):
        print_note(words)
    for name in predictors_of(opened.newest_first(population, [Kind.ROUND], reports=False)):
        print_note(f"the ledger has rounds of a predictor, too: --predictor {name}")


def _write_one(ledger: Ledger, key: str, population: str, file: Path | None) -> None:
    """Write one check in full; it is signed if the server had a key."""
    if file is None or file.suffix != ".json":
        raise ValueError("--key goes with a FILE that ends in .json")
    entry = ledger.check(key, population=population)
    found = None if entry is None else report_of(entry)
    if found is None:
        raise ValueError(
            f"the ledger has no report of a check {key!r} of population {population!r}"
        )
    put_in_place(file, found.to_json().encode())
    signed = "signed" if found.evidence is not None else "not signed"
    print_note(f"{file}: check {key}, {signed}")


def _show_mine(found: NodeComparison, file: Path | None) -> None:
    """Print a node's comparison, or write it for the node's user alone; end with the answer."""
    if file is None:
        for line in view_of(found).lines(width=results.width):
            results.print(line, markup=False)
    else:
        before = os.umask(0o077)
        try:
            found.save(file)
        finally:
            os.umask(before)
        print_note(f"{file}: private, keep it on this node")
    codes = {"no": ExitCode.NO_DRIFT, "yes": ExitCode.DRIFT}
    raise typer.Exit(codes.get(found.answer, ExitCode.INCONCLUSIVE))


def _show_checks(checks: CheckSeries, population: str, title: str) -> None:
    if not checks:
        print_note(f"the ledger has no checks of population {population!r}")
        return
    results.print(checks.table(title=title))
    for line in (*failures(checks), *map(Text, checks.since)):
        results.print(line)
    last = next((check for check in reversed(checks.points) if check.report), None)
    if last is None or last.report is None:
        return
    if last.report.is_table:
        results.print(Text("\nThe last check's columns, by outcome and lower bound:"))
        results.print(columns_table(last.report.columns))
    after = "" if last is checks.points[-1] else f" after check {last.number}"
    results.print(Text(f"Next{after}: {next_step(last.report)}"))


def _write(series: CheckSeries | RoundSeries, file: Path, title: str) -> None:
    series.save(file, title=title)
    print_note(f"{file}: {counted(len(series), series.what)}")
