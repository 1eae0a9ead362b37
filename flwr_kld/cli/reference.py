"""``flwr-kld reference``: makes and shows the public Π, and how many records it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from flwr_kld.ask.partition import plan_to_pin
from flwr_kld.ask.plan import each_symbol
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AllowUnlisted,
    AsJson,
    LedgerUrl,
    Population,
    print_json,
    print_note,
    results,
)
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.sample import print_dialect, read_rows
from flwr_kld.infer.allowance import rows_needed
from flwr_kld.kernel.arguments import finite
from flwr_kld.reference import Reference
from flwr_kld.report.entries import report_of, why_no_report
from flwr_kld.report.words import table_of
from flwr_kld.table.base import Domain
from flwr_kld.table.dialect import FILES
from flwr_kld.table.frame import TextFile
from flwr_kld.table.rounded_table import rounded
from flwr_kld.table.table import Table

_HEAVIEST = 10
"""Symbols that are shown."""

reference = typer.Typer(
    add_completion=False, help="Build and show the public reference distribution."
)

Threshold = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Tolerated divergence, in nats, of columns without a threshold in the table, by "
        "default 0.1: the command says how many records it needs.",
    ),
]

Bins = Annotated[
    int | None, typer.Option(min=2, help="Most bins for a numeric column; 20 by default.")
]

MostLabels = Annotated[
    int | None, typer.Option(min=1, help="Most labels for a text column; 20 by default.")
]


@reference.command()
def build(
    rows: Annotated[
        Path,
        typer.Argument(help=f"PUBLIC rows, {FILES}, of which a table and its reference are made."),
    ],
    *,
    table: Annotated[
        Path | None,
        typer.Option(help="Their data dictionary, table.toml; else one is made."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Reference to write, .json; by default ROWS as .json."),
    ] = None,
    bins: Bins = None,
    labels: MostLabels = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Name of one more column, such as 'dependence': a model's score of how a row's "
            "columns go together. It is written into --table, too. Needs scikit-learn."
        ),
    ] = None,
    floor: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Weight of a uniform distribution that is mixed in: no value has probability 0.",
        ),
    ] = 0.0,
    allow_unlisted: AllowUnlisted = False,
    threshold: Threshold = None,
    as_json: AsJson = False,
) -> None:
    """Build a reference from public rows. Clients see everything in it.

    Without public rows, flwr-kld describe --reference has clients make one privately.
    """
    out = out or rows.with_name(rows.name.split(".")[0] + ".json")
    require_ending(out)
    if table is not None and (bins or labels):
        raise ValueError("the data dictionary says what columns are: give --table alone")
    known = None if table is None else Table.from_toml(table)
    frame = read_rows(rows, known)
    if known is None:
        known = Table.from_frame(frame, bins=bins or 20, labels=labels or 20)
        if not isinstance(frame, TextFile):  # which was recognised when it was read
            print_dialect(str(rows), known.dialect)
        for name, reason in known.left_out.items():
            print_note(f"{name} is left out: {reason}")
        for name, words in known.read_as.items():
            print_note(f"{name}: {words}")
    made = Reference.from_frame(
        known, frame, floor=floor, score=score, allow_unlisted=allow_unlisted
    )
    if score and table is not None and isinstance(made.domain, Table):
        made.domain.to_toml(table)
    _save(made, out, threshold, as_json=as_json)


@reference.command("of-check")
def of_check(
    out: Annotated[Path, typer.Argument(help="Reference to write, .json.")],
    *,
    key: Annotated[str, typer.Option(help="The check's key.")],
    compared_with: Annotated[
        Path, typer.Option(help="Reference that the check compared with, .json.")
    ],
    threshold: Threshold = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Make a reference of what an earlier check released, free of charge.

    What a check released is public, so to compare this quarter's clients with the last quarter's
    costs no more than the two checks.
    """
    require_ending(out)
    entry = existing_ledger(ledger).check(key, population=population)
    if entry is None:
        raise ValueError(f"the ledger has no check {key!r} of population {population!r}")
    report = report_of(entry)
    if report is None:
        raise ValueError(f"key {key!r}: {why_no_report(entry)}")
    made = report.as_reference(Reference.load(compared_with))
    _save(made, out, threshold, as_json=as_json)


def require_effect(threshold: float | None, domain: Domain) -> None:
    """Refuse a threshold where each column of the table has its own."""
    if threshold is None or not isinstance(domain, Table):
        return
    if not domain.columns.keys() - domain.thresholds:
        raise ValueError(
            "--threshold has no effect, as each column of the table has a threshold: leave it out, "
            "or change the data dictionary and give that with --table"
        )


def require_ending(out: Path) -> None:
    """Refuse to write a reference to a file of another kind."""
    if out.suffix != ".json":
        raise ValueError(f"a reference is a .json file, not {out.name}")


def _save(made: Reference, out: Path, threshold: float | None, *, as_json: bool) -> None:
    """Write a reference, and say what it holds and whether its records are enough."""
    require_effect(threshold, made.domain)
    needed = rows_of_columns(made, threshold)
    made.save(out)
    if as_json:
        print_json(
            {
                "file": str(out),
                "reference": made.fingerprint,
                "unlisted": made.unlisted,
                "records": made.records,
                "records_needed": needed,
            }
        )
    for way, share in made.unlisted.items():
        print_note(f"{share:.2%} of the records are {way}: compared like any value that is listed")
    if needed:
        print_note(f"{out}: {in_words(made, needed)}")
    print_note(f"{out}: reference {made.fingerprint}")


@reference.command()
def show(
    file: Annotated[Path, typer.Argument(help="Reference that was saved, .json.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show a reference's fingerprints, size, columns and heaviest symbols.

    `plan` and `describe` are fingerprints of what checks and `flwr-kld describe` count, for a
    guard's allow.plans.
    """
    reference = Reference.load(file)
    found = _describe(reference)
    if as_json:
        print_json(found)
        return
    for name in ("reference", "domain", "plan", "describe", "kind", "symbols", "possible"):
        results.print(f"{name + ':':11}{found[name]}", markup=False)
    columns = (
        ((one["name"], one["kind"], str(one["symbols"]), f"{one['unlisted']:.2%}"), False)
        for one in found["columns"]
    )
    heads = ("column", "kind", "symbols", "not listed")
    results.print(table_of(heads, columns, left=heads[:2], title="columns"))
    heaviest = (
        ((str(one["symbol"]), one["name"], f"{one['probability']:.3%}"), False)
        for one in found["heaviest"]
    )
    named = ("symbol", "name", "probability")
    results.print(table_of(named, heaviest, left=named[1:2], title="heaviest symbols"))


def _describe(found: Reference) -> dict[str, Any]:
    p, domain = found.probabilities, found.domain
    heaviest = [s for s in np.argsort(-p, kind="stable")[:_HEAVIEST].tolist() if p[s] > 0]
    columns = [
        {
            "name": name,
            "kind": own.domain.kind,
            "symbols": own.domain.size,
            "unlisted": sum(own.unlisted.values()),
        }
        for name, own in found.columns.items()
    ]
    return {
        "reference": found.fingerprint,
        "domain": domain.fingerprint,
        "plan": plan_to_pin(found) or "any (each check draws cells of its own)",
        "describe": each_symbol(rounded(domain)).fingerprint,
        "kind": domain.kind,
        "symbols": domain.size,
        "possible": int(np.count_nonzero(p)),
        "columns": columns,
        "heaviest": [
            {"symbol": s, "name": domain.name_of(s), "probability": float(p[s])} for s in heaviest
        ],
    }


DEFAULT_THRESHOLD = 0.1
"""Nats that are tolerated where nothing is said."""
_MOST_NAMES = 5
"""Columns that a sentence names."""


def rows_of_columns(reference: Reference, threshold: float | None = None) -> dict[str, int]:
    """Return about how many records the threshold of each column that has one needs, most first."""
    from flwr_kld.infer.alarm import Alarm  # imported here: it takes a while

    alarm, domain = Alarm(), reference.domain
    nats = DEFAULT_THRESHOLD if threshold is None else threshold
    usual = finite("threshold", nats, least=0, unit="nats")
    own = domain.thresholds if isinstance(domain, Table) else {}
    needed = {
        name: rows_needed(column, own.get(name, usual), alarm.resolution, level=alarm.level)
        for name, column in reference.columns.items()
    }
    return most_first(needed)


def most_first(needed: Mapping[str, int | None]) -> dict[str, int]:
    """Sort columns by what they need, and leave out those of which nothing is known."""
    known = [(name, rows) for name, rows in needed.items() if rows is not None]
    return dict(sorted(known, key=lambda one: -one[1]))


def short_of(reference: Reference, needed: Mapping[str, int]) -> dict[str, int]:
    """Return those columns that need more than their reference has."""
    return {name: rows for name, rows in needed.items() if rows > (reference.records or rows)}


def in_words(reference: Reference, needed: Mapping[str, int]) -> str:
    """Say what the thresholds need and whether it is there; needs one column or more."""
    has, table = f"{reference.records or 0:,.0f} records", reference.is_table
    short = short_of(reference, needed)
    if not short:
        name, rows = next(iter(needed.items()))
        needs = f"{name} needs most, about" if table else "it needs about"
        thresholds = "the thresholds of all columns" if table else "the threshold"
        return f"its {has} are enough for {thresholds}: {needs} {rows:,}"
    if not table:
        (rows,) = short.values()
        return f"its {has} are too few for the threshold, which needs about {rows:,}"
    needs = ", ".join(
        f"{name} needs about {rows:,}" for name, rows in list(short.items())[:_MOST_NAMES]
    )
    more = f" and {len(short) - _MOST_NAMES} more need fewer" if len(short) > _MOST_NAMES else ""
    return (
        f"its {has} are too few for the thresholds of {len(short)} of {len(reference.columns)} "
        f"columns: {needs}{more}"
    )
