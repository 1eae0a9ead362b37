"""``flwr-kld history``: the ledger's checks, or a predictor's rounds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from flwr_kld.accounting import Kind
from flwr_kld.accounting.entry import Entry
from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, existing_ledger
from flwr_kld.cli.options import AsJson, Last, Ledger, Population, Predictor
from flwr_kld.cli.output import print_json, results, say
from flwr_kld.cli.show import failures
from flwr_kld.report import CheckSeries, RoundSeries
from flwr_kld.report.columns_table import columns_table
from flwr_kld.report.entries import (
    back_to,
    beside,
    checks_before,
    is_check,
    latest_rounds,
    predictor_of,
    predictors_of,
    without_rounds,
)


def history(
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    predictor: Predictor = None,
    last: Last = 30,
    as_json: AsJson = False,
) -> None:
    """Show the latest checks of a population, or rounds of one predictor, oldest first."""
    books = existing_ledger(ledger)
    newest = books.newest_first(population)
    if predictor is not None:
        chosen = latest_rounds(newest, predictor, last)
    elif as_json:
        chosen = without_rounds(back_to(newest, last, lambda entry: predictor_of(entry) is None))
    if as_json:
        print_json([_as_dict(entry) for entry in chosen])
    elif predictor is not None:
        rounds = RoundSeries.from_entries(chosen)
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
    results.print(*failures(checks), sep="\n")
    if checks.reports and (columns := checks.reports[-1].columns):
        results.print(Text("\nThe last check's columns, those that moved most first:"))
        results.print(columns_table(columns))


def _as_dict(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "population": entry.population,
        "kind": entry.kind,
        "key": entry.key,
        "started": entry.started.isoformat(),
        "ended": entry.ended and entry.ended.isoformat(),
        "state": entry.state,
        "failure": entry.failure and asdict(entry.failure),
        "report": None if entry.kind is Kind.TRAINING else entry.report,
    }
