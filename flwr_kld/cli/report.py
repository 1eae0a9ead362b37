"""``flwr-kld report``: the ledger's checks, or a predictor's rounds, as page, picture or table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, existing_ledger
from flwr_kld.cli.options import Last, Ledger, Population, Predictor
from flwr_kld.cli.output import say
from flwr_kld.report import CheckSeries, RoundSeries
from flwr_kld.report.entries import (
    back_to,
    checks_before,
    is_check,
    latest_rounds,
)
from flwr_kld.report.series import FORMATS


def report(
    file: Annotated[
        Path, typer.Argument(help=f"File to write; its ending is the format: {', '.join(FORMATS)}.")
    ] = Path("report.html"),
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    predictor: Predictor = None,
    last: Last = 365,
    title: Annotated[str | None, typer.Option(help="Heading of the page or picture.")] = None,
) -> None:
    """Write the latest checks of a population, or rounds of a predictor, to a file.

    By default this is a self-contained HTML page.
    """
    if file.suffix not in FORMATS:
        raise ValueError(f"{file} must end in one of {', '.join(FORMATS)}")
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
