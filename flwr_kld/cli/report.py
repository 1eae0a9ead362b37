"""``flwr-kld report``: the ledger's checks, or a predictor's rounds, as page, picture or table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.ledgers import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    back_to,
    checks_before,
    checks_of,
    existing_ledger,
    is_check,
    latest_rounds,
    rounds_of,
)
from flwr_kld.cli.options import Last, Ledger, Population, Predictor
from flwr_kld.cli.output import say
from flwr_kld.report import (
    Check,
    Round,
    plot_history,
    plot_rounds,
    save_csv,
    save_html,
    save_json,
    save_predictor_html,
    save_rounds_csv,
    save_rounds_json,
)

_FORMATS = (".html", ".png", ".svg", ".csv", ".json")


def report(
    file: Annotated[
        Path, typer.Argument(help=f"The ending says the format: {', '.join(_FORMATS)}.")
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
    if file.suffix not in _FORMATS:
        raise ValueError(f"{file} must end in one of {', '.join(_FORMATS)}")
    books = existing_ledger(ledger)
    newest = books.newest_first(population)
    if predictor is not None:
        rounds = rounds_of(latest_rounds(newest, predictor, last))
        _write_rounds(rounds, file, title or f"Predictor {predictor} of {population}")
        say(f"{file}: {len(rounds)} rounds")
        return
    entries = back_to(newest, last, is_check)
    checks = checks_of(entries, checks_before(books, entries, population))
    if not checks:
        raise ValueError(f"the ledger has no checks of population {population!r}")
    _write_checks(checks, file, title or f"Drift checks of {population}")
    say(f"{file}: {len(checks)} checks")


def _write_checks(checks: list[Check], file: Path, title: str) -> None:
    if file.suffix == ".html":
        save_html(checks, file, title=title)
    elif file.suffix == ".csv":
        save_csv(checks, file)
    elif file.suffix == ".json":
        save_json(checks, file)
    else:
        plot_history(checks, file, title=title)


def _write_rounds(rounds: list[Round], file: Path, title: str) -> None:
    if file.suffix == ".html":
        save_predictor_html(rounds, file, title=title)
    elif file.suffix == ".csv":
        save_rounds_csv(rounds, file)
    elif file.suffix == ".json":
        save_rounds_json(rounds, file)
    else:
        plot_rounds(rounds, file, title=title)
