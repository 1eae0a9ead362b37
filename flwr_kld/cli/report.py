"""``flwr-kld report``: the ledger's checks as a page, a picture or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, checks_of, existing_ledger
from flwr_kld.cli.options import Last, Ledger, Population
from flwr_kld.cli.output import say
from flwr_kld.ledger import Ledger as OpenLedger
from flwr_kld.ledger import LedgerError
from flwr_kld.report import plot_history, save_csv, save_html, save_json

_FORMATS = (".html", ".png", ".svg", ".csv", ".json")


def report(
    file: Annotated[
        Path, typer.Argument(help=f"The ending says the format: {', '.join(_FORMATS)}.")
    ] = Path("report.html"),
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    last: Last = 365,
    title: Annotated[str | None, typer.Option(help="Heading of the page or picture.")] = None,
) -> None:
    """Write the latest checks of a population to a file, by default a self-contained HTML page."""
    if file.suffix not in _FORMATS:
        raise ValueError(f"{file} must end in one of {', '.join(_FORMATS)}")
    books = existing_ledger(ledger)
    checks = checks_of(books.history(population))[-last:]
    if not checks:
        raise ValueError(f"the ledger has no checks of population {population!r}")
    heading = title or f"Drift checks of {population}"
    budget = _budget(books, population)
    if file.suffix == ".html":
        save_html(checks, file, title=heading, budget=budget)
    elif file.suffix == ".csv":
        save_csv(checks, file)
    elif file.suffix == ".json":
        save_json(checks, file)
    else:
        plot_history(checks, file, title=heading, budget=budget)
    say(f"{file}: {len(checks)} checks")


def _budget(ledger: OpenLedger, population: str) -> float | None:
    """Epsilon of the budget in force, in nats, if one was set."""
    try:
        return ledger.budget(population).epsilon
    except LedgerError:
        return None
