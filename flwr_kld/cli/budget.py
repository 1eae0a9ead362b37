"""``flwr-kld budget``: what is spent, what is left, and when it frees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    LedgerUrl,
    Population,
    print_json,
    results,
    utc,
)
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.common.errors import NoBudget
from flwr_kld.kernel.promise import Protected
from flwr_kld.ledger import Budget, Kind, Ledger
from flwr_kld.ledger.budget import Composition, Ranked, Spent
from flwr_kld.ledger.entry import Entry
from flwr_kld.report.envelope import CostSummary, cost_of
from flwr_kld.report.words import counted, more_checks

_OPTIONS = {"epsilon": "--set", "delta": "--delta", "window_days": "--days", "kept": "--keep"}
"""Of a budget's terms."""

_ELSE = "; by default that of the budget in force, else"


def budget(
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    epsilon: Annotated[
        float | None,
        typer.Option("--set", help="Set a budget of this many nats, then show it."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help=f"Delta of the budget to set{_ELSE} 1e-6.")
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help=f"Length of the budget's rolling window, in days{_ELSE} 30."),
    ] = None,
    protects: Annotated[
        Protected | None,
        typer.Option(help=f"Whom the budget is for: each record, or each client{_ELSE} record."),
    ] = None,
    composition: Annotated[
        Composition | None,
        typer.Option(
            help=f"How costs are added up: pld is tightest; where reports decide what is asked "
            f"next, sum, or renyi for many releases{_ELSE} pld."
        ),
    ] = None,
    first: Annotated[
        Ranked | None,
        typer.Option(
            help=f"Which may spend the whole budget, checks or rounds of training{_ELSE} checks; "
            "the other stops --keep nats before its end."
        ),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(help=f"Nats of the budget that only --first may spend{_ELSE} 0."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set a budget, or show what checks and training spent of it and how many more it allows."""
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "window_days": days,
        "protects": protects,
        "composition": composition,
        "first": first,
        "kept": keep,
    }
    given = {name: value for name, value in terms.items() if value is not None}
    if epsilon is None:
        if given:
            raise ValueError("nothing was set: terms of a budget go with its epsilon, --set")
        opened = existing_ledger(ledger)
    else:
        opened = Ledger(ledger)
        opened.set_budget(_budget(opened, population, given))
    spent = opened.spent(population)
    if as_json:
        frees_at = spent.frees_at and spent.frees_at.isoformat()
        print_json({**asdict(spent), "frees_at": frees_at})
        return
    results.print(f"budget of {population}: {spent.budget}", markup=False)
    results.print(
        f"  spent on the person charged most: {spent.epsilon:.4g} nats at delta {spent.delta:g}"
        f" (composition: {spent.composition})"
    )
    for line in lines_of_kinds(opened, spent):
        results.print(f"  {line}", markup=False)
    if spent.frees_at is not None:
        later = "a session's leaves as long after its last night"
        results.print(f"  the oldest spend leaves the window on {utc(spent.frees_at)}; {later}")


def _budget(opened: Ledger, population: str, given: dict[str, Any]) -> Budget:
    """Change the budget in force, or make the first; an error names the option."""
    try:
        before = opened.budget(population)
    except NoBudget:
        before = None
    try:
        return replace(before, **given) if before else Budget(population=population, **given)
    except ValueError as error:
        name, _, words = str(error).partition(" ")
        raise ValueError(f"{_OPTIONS.get(name, name)} {words}") from None


def lines_of_kinds(opened: Ledger, spent: Spent) -> Iterator[str]:
    """Yield what checks spent, what is left for them, and for how many more; then of training."""
    for who, (epsilon, left) in spent.kinds.items():
        room = _room(opened, spent.budget.population, who)
        if who == "checks" or epsilon or room:
            yield f"{who}: {epsilon:.4g} nats spent by themselves, {left:.4g} nats left{room}"


def _room(opened: Ledger, population: str, who: Ranked) -> str:
    """Say for how many more like the last one there is room; of a session, what is paid."""
    if who == "training":
        rounds = opened.newest_first(population, [Kind.TRAINING], reports=False)
        last_round = next((one for one in rounds if one.release), None)
        if last_round is None:
            return ""
        return f", room for {counted(opened.room_for(last_round), 'more round')} like the last"
    found = last_check(opened, population)
    if found is None:
        return ""
    last, cost = found
    if cost.nights > 1:
        nights = cost.nights - cost.night
        return f"; paid already: {counted(nights, 'more night')} of the standing session"
    more = more_checks(opened.room_for(last))
    return f", room for {more} like the last (epsilon {cost.epsilon:g}), same clients"


def last_check(opened: Ledger, population: str) -> tuple[Entry, CostSummary] | None:
    """Return the last check that gave a report, and what it cost."""
    costs = ((one, _cost_of(one)) for one in opened.newest_first(population, [Kind.CHECK]))
    return next(((one, cost) for one, cost in costs if cost), None)


def _cost_of(entry: Entry) -> CostSummary | None:
    """Return what a check cost, if it gave a report that this version reads."""
    try:  # of a whole report, more code would be loaded than for all else
        return cost_of(entry.report, "check")
    except ValueError:
        return None
