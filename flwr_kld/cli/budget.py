"""``flwr-kld budget``: what is spent, what is left, and when it frees."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from flwr_kld.accounting import Budget, Ledger
from flwr_kld.accounting.budget import Composition
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    LedgerUrl,
    Population,
    existing_ledger,
    print_json,
    results,
)
from flwr_kld.cli.show import utc
from flwr_kld.kernel import Unit
from flwr_kld.kernel.promise import Adjacency


def budget(
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    epsilon: Annotated[
        float | None,
        typer.Option("--set", help="Put a budget of this many nats in force, then show it."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of the budget to set.")] = 1e-6,
    days: Annotated[
        float, typer.Option(help="Length of the budget's rolling window, in days.")
    ] = 30.0,
    adjacency: Annotated[
        Adjacency, typer.Option(help="Neighbouring relation of the budget.")
    ] = Adjacency.REPLACE_ONE,
    unit: Annotated[
        Unit, typer.Option(help="What the budget protects: a record or a whole client.")
    ] = Unit.RECORD,
    composition: Annotated[
        Composition,
        typer.Option(help="How costs add up; sum if reports decide which check comes next."),
    ] = "pld",
    as_json: AsJson = False,
) -> None:
    """Show what the person charged most has spent in the window, and what is left."""
    if epsilon is None:
        books = existing_ledger(ledger)
    else:
        books = Ledger(ledger)
        terms = Budget(epsilon, delta, days, population, adjacency, unit, composition)
        books.set_budget(terms)
    spent = books.spent(population)
    if as_json:
        frees_at = spent.frees_at and spent.frees_at.isoformat()
        print_json({**asdict(spent), "frees_at": frees_at})
        return
    results.print(f"budget of {population}: {spent.budget}", markup=False)
    results.print(
        f"  spent on the person charged most: {spent.epsilon:.4g} nats at delta {spent.delta:g}"
        f" (by {spent.composition})"
    )
    results.print(f"  left: {spent.left:.4g} nats")
    if spent.frees_at is not None:
        results.print(f"  the oldest spend leaves the window on {utc(spent.frees_at)}")
